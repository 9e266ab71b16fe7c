"""Lengths of loaders and of their datasets as the code spells them: a name, an attribute or a dictionary entry."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint.model.queries import batch_sums, variables, written
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.model.definitions import Definitions


def is_dataset_length(divisor: ast.expr, loader: ast.expr, known: Definitions) -> bool:
    """Whether a number is the dataset length of a loader that the file creates, for each key of a dictionary."""
    lengths, loaders = dict(_meanings(divisor, known)), dict(_meanings(loader, known))
    return (
        bool(lengths)
        and lengths.keys() == loaders.keys()
        and all(_is_length(lengths[key], loaders[key], known) for key in lengths)
    )


def _is_length(length: ast.expr, loader: ast.expr, known: Definitions) -> bool:
    counted = batch_sums.counted(length)
    if counted is None or counted[1] or not isinstance(loader, ast.Call):
        return False
    if known.named(loader.func) != "torch.utils.data.DataLoader":
        return False
    if not _has_batches(loader):
        return False
    dataset = written.argument(loader, 0, "dataset")
    if dataset is None or any(isinstance(item, ast.Call) for item in python_ast.walk(dataset)):
        return False
    whole = dataset.value if isinstance(dataset, ast.Subscript) else dataset
    bound = variables.bindings(whole.id, loader, known) if isinstance(whole, ast.Name) else []
    return len(bound) <= 1 and ast.unparse(dataset) == counted[0]


def own_count(divisor: ast.expr, loop: ast.For, known: Definitions) -> ast.AugAssign | None:
    """The only addition to a variable in a loop, if each iteration adds 1 or the batch size: `n += x.size(0)`."""
    name = batch_sums.name_of(divisor)
    added = [
        node for node in (python_ast.walk(loop) if name else ())
        if isinstance(node, ast.AugAssign) and batch_sums.name_of(node.target) == name
    ]  # fmt: skip
    parent = known.tree.parent(added[0]) if len(added) == 1 else None
    while isinstance(parent, ast.With):
        parent = known.tree.parent(parent)
    if parent is not loop or not isinstance(added[0].op, ast.Add):
        return None
    value = added[0].value
    is_one = isinstance(value, ast.Constant) and value.value == 1
    return added[0] if is_one or batch_sums.is_batch_size(value) else None


def is_batched(loader: ast.expr, known: Definitions) -> bool:
    """Whether the file creates a loader with batches of more than one sample."""
    made = [item for _, item in _meanings(batch_sums.unwrapped(loader), known)]
    return bool(made) and all(isinstance(item, ast.Call) and _has_batches(item) for item in made)


def _meanings(node: ast.expr, known: Definitions) -> Iterator[tuple[str, ast.expr]]:
    """The values of an expression, each with the dictionary key that it is read from, or an empty string."""
    value = written.value_in_file(node, known)
    if value is not None:
        yield "", value
    elif not isinstance(node, ast.Subscript):
        yield "", node
    else:
        whole = written.value_in_file(node.value, known)
        if isinstance(whole, ast.DictComp) and len(whole.generators) == 1:
            key = whole.generators[0].target
            is_keyed = isinstance(key, ast.Name) and isinstance(whole.key, ast.Name) and whole.key.id == key.id
            if isinstance(key, ast.Name) and is_keyed:
                yield "", _Exchange(key.id, node.slice).visit(copy.deepcopy(whole.value))
        elif isinstance(whole, ast.Dict):
            for name, item in zip(whole.keys, whole.values, strict=True):
                if isinstance(name, ast.Constant) and (
                    not isinstance(node.slice, ast.Constant) or node.slice.value == name.value
                ):
                    yield str(name.value), item


def _has_batches(loader: ast.Call) -> bool:
    """Whether a loader gets a batch size other than 1."""
    given = [*loader.args[1:2], *(item.value for item in loader.keywords if item.arg == "batch_size")]
    return bool(given) and not any(isinstance(item, ast.Constant) and item.value in (1, None) for item in given)


class _Exchange(ast.NodeTransformer):
    """Replaces the variable of a comprehension with a key."""

    def __init__(self, name: str, key: ast.expr) -> None:
        self._name, self._key = name, key

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._key if node.id == self._name else node
