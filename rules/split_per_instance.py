"""Datasets that shuffle each time they are created, and take one part of the result."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.index import FileIndex
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import callees, held_out, names
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.model.definitions import FunctionInfo
    from torchlint.syntax.python_ast import Site

_SHUFFLES = frozenset({"random.shuffle", "numpy.random.shuffle"})
_ORDERS = frozenset({"numpy.random.permutation", "torch.randperm"})
_SEEDING = LazyPattern(r"seed|RandomState|default_rng|Generator|random_state")
_PART = LazyPattern(
    r"(?i)^(?:split|mode|phase|stage|subset|partition|is_?train\w*|train\w*|is_?val\w*|is_?test|test|validation)$"
)


class Reshuffled(NamedTuple):
    """The code at `cut` slices the order made at `site`, and `parameter` decides which part it takes."""

    site: Site
    cut: Site
    parameter: str


class MixedOrders(NamedTuple):
    """One part of `data` is cut from a random order at `shuffled`, the other part from the stored order at `site`."""

    site: Site
    shuffled: Site
    data: str


class Cut(NamedTuple):
    """An expression that takes a part of `data`, cut from a random order if `is_shuffled`."""

    node: ast.expr
    data: str
    is_shuffled: bool


class SplitPerInstance(Rule):
    """Training and validation sets are cut from two different random orders.

    ## What it does
    Finds datasets whose `__init__` shuffles without a seed and then takes the part of the list that a parameter such as
    `split` or `train` selects. Also finds functions and classes that cut one part of a dataset from a random order,
    `Subset(data, order[n:])`, and the other part from the stored order, `Subset(data, range(n))`.

    ## Why is this bad?
    The program creates the dataset twice, and each instance shuffles again. The validation part comes from a different
    order than the training part. Most validation samples are also in the training part, and some samples are in
    neither. The validation loss hides overfitting.

    ## Example
    ```python
    import random
    from torch.utils.data import Dataset

    class Clips(Dataset):
        def __init__(self, files, split):
            random.shuffle(files)
            count = int(len(files) * 0.8)
            self.files = files[:count] if split == "train" else files[count:]
    ```

    Use instead:
    ```python
    import random
    from torch.utils.data import Dataset

    class Clips(Dataset):
        def __init__(self, files, split):
            random.Random(0).shuffle(files)
            count = int(len(files) * 0.8)
            self.files = files[:count] if split == "train" else files[count:]
    ```
    """

    code = "TL628"
    category = Category.CORRECTNESS
    triggers = ((b"shuffle", b"permutation", b"randperm"), (b"torch",), (b"__init__", b"Subset", b"val", b"test"))

    def ask(self) -> Iterator[Reshuffled | MixedOrders]:
        yield from [] if self.model.is_test else self._mixed()
        for info in [] if self.model.is_test else self.model.definitions.classes.values():
            init = info.methods.get("__init__")
            if init is not None and ("__getitem__" in info.methods or self._is_dataset(info.bases)):
                if not self._is_seeded(info.name):
                    yield from self._reshuffled(init)

    def _mixed(self) -> Iterator[MixedOrders]:
        """The parts of one dataset that come from a random order and from the stored order."""
        groups: dict[tuple[ast.AST, str], list[Cut]] = {}
        for node in self.model.tree.of_type(ast.Call, ast.Subscript):
            cut = self._cut(node)
            if cut is not None:
                method = self.model.definitions.method_around(node)
                is_own = method is not None and method.owner is not None and cut.data.startswith("self.")
                scope = method.owner.node if is_own and method is not None and method.owner is not None else (
                    self.model.tree.scope_around(node))  # fmt: skip
                groups.setdefault((scope, cut.data), []).append(cut)
        for (_, data), cuts in groups.items():
            shuffled = [item for item in cuts if item.is_shuffled]
            plain = [item for item in cuts if not item.is_shuffled]
            if len(shuffled) == len(plain) == 1:
                yield MixedOrders(python_ast.site_of(plain[0].node), python_ast.site_of(shuffled[0].node), data)

    def _cut(self, node: ast.expr) -> Cut | None:
        """The part of a dataset that `Subset(data, order[n:])` takes, or `data[order[n:]]`, or a slice of the data."""
        if isinstance(node, ast.Call):
            is_subset = names.imported(node.func, self.model.definitions) == "torch.utils.data.Subset"
            if not is_subset or len(node.args) != 2 or not python_ast.dotted(node.args[0]):
                return None
            data, indices = python_ast.dotted(node.args[0]), node.args[1]
            is_stored = isinstance(indices, ast.Call) and python_ast.called_name(indices) == "range"
            return Cut(node, data, False) if is_stored else self._cut_of_order(node, data, indices)
        if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Name):
            return None
        statement = self.model.tree.parent(node)
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        name = python_ast.last_name(target) if target is not None else ""
        if not held_out.is_named_held_out(name) and not held_out.is_named_training(name):
            return None
        if isinstance(node.slice, ast.Slice):
            is_half = (node.slice.lower is None) != (node.slice.upper is None) and node.slice.step is None
            is_order = self._is_order(node.value)
            return Cut(node, node.value.id, False) if is_half and not is_order else None
        return self._cut_of_order(node, node.value.id, node.slice)

    def _cut_of_order(self, node: ast.expr, data: str, indices: ast.expr) -> Cut | None:
        indices = names.only_value(indices, self.model.definitions) or indices if isinstance(indices, ast.Name) else (
            indices)  # fmt: skip
        is_slice = isinstance(indices, ast.Subscript) and isinstance(indices.slice, ast.Slice)
        is_shuffled = is_slice and isinstance(indices, ast.Subscript) and self._is_order(indices.value)
        return Cut(node, data, True) if is_shuffled else None

    def _is_order(self, order: ast.expr) -> bool:
        """Whether an expression is a random order of all samples, also through a method that returns one."""
        for _ in range(4):
            if isinstance(order, ast.Call) and python_ast.called_name(order) in ("tolist", "numpy"):
                order = order.func.value if isinstance(order.func, ast.Attribute) else order
            elif isinstance(order, ast.Call):
                if names.imported(order.func, self.model.definitions) in _ORDERS:
                    return True
                function = callees.function(order.func, self.model.definitions)
                returned = names.returned_value(function) if function is not None else None
                if returned is None:
                    return False
                order = returned
            elif isinstance(order, ast.Name):
                value = names.only_value(order, self.model.definitions)
                if value is None:
                    return False
                order = value
        return False

    def _is_seeded(self, name: str) -> bool:
        """Whether code seeds before each call of a class."""
        calls = sorted(FileIndex.of(self.model.tree).calls_named(name), key=lambda item: item.lineno)
        for previous, call in zip((None, *calls), calls, strict=False):
            around = self.model.tree.function_around(call)
            is_first = previous is None or self.model.tree.function_around(previous) is not around
            start = 0 if is_first or previous is None else previous.lineno
            nodes = names.own_nodes(around if around is not None else self.model.tree.module)
            between = (node for node in nodes if isinstance(node, ast.Call) and start <= node.lineno < call.lineno)
            if not any(_SEEDING.search(ast.unparse(node.func)) for node in between):
                return False
        return bool(calls)

    def _is_dataset(self, bases: list[str]) -> bool:
        return any(base.rpartition(".")[2].endswith("Dataset") for base in bases)

    def _reshuffled(self, init: FunctionInfo) -> Iterator[Reshuffled]:
        nodes = list(names.own_nodes(init.node))
        if any(isinstance(node, ast.Call) and _SEEDING.search(ast.unparse(node)) for node in nodes):
            return
        for call in nodes:
            if not isinstance(call, ast.Call) or not call.args:
                continue
            qualified = names.imported(call.func, self.model.definitions)
            shuffled = python_ast.dotted(call.args[0]) if qualified in _SHUFFLES else ""
            if qualified in _ORDERS:
                statement = self.model.tree.parent(call)
                shuffled = python_ast.dotted(statement.targets[0]) if isinstance(statement, ast.Assign) else ""
            for node in nodes if shuffled else ():
                if (
                    isinstance(node, ast.Subscript)
                    and python_ast.dotted(node.value) == shuffled
                    and node.lineno > call.lineno
                ):
                    parameter = self._decides(node, init) if isinstance(node.slice, ast.Slice) else ""
                    if parameter and not self._is_decided(call, parameter):
                        yield Reshuffled(python_ast.site_of(call), python_ast.site_of(node), parameter)
                        return

    def _decides(self, node: ast.AST, init: FunctionInfo) -> str:
        """The parameter that selects a part of a list."""
        for item in self.model.tree.ancestors(node):
            if item is init.node:
                break
            if isinstance(item, (ast.If, ast.IfExp)):
                found = sorted(name for name in _names_in(item.test) if name in init.parameters and _PART.search(name))
                if found:
                    return found[0]
        return ""

    def _is_decided(self, call: ast.Call, parameter: str) -> bool:
        """Whether the same parameter decides whether the list is shuffled at all."""
        tests = [item.test for item in self.model.tree.ancestors(call) if isinstance(item, ast.If)]
        return any(parameter in _names_in(test) for test in tests)

    def report_MixedOrders(self, found: MixedOrders) -> None:
        self.report(
            found.site,
            f"this part of `{found.data}` has the stored order: it overlaps the other part, which is random",
            related=[(found.shuffled, "the other part is taken here")],
            help="take both parts from the same order",
        )

    def report_Reshuffled(self, found: Reshuffled) -> None:
        self.report(
            found.site,
            f"each dataset shuffles again before `{found.parameter}` selects its part: the parts overlap",
            related=[(found.cut, "a part is taken here")],
            help="shuffle with a fixed seed, or split once before you create the datasets",
        )


def _names_in(test: ast.expr) -> set[str]:
    """The names in a condition; a parameter that the object stores has its own: `self.mode`."""
    return {python_ast.dotted(part).removeprefix("self.") for part in python_ast.walk(test)}
