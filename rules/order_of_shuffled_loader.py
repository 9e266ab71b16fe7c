"""Predictions of a shuffled loader beside data in the order of the dataset."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import batch_sums, callees, metric_roles, names, written
from torchlint.pytorch import datasets
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.model.definitions import FunctionInfo
    from torchlint.syntax.python_ast import Site

_COLLECTING = frozenset({"append", "extend"})
_KEEPING = frozenset(
    "cpu numpy detach tolist to_numpy float long int astype flatten ravel squeeze reshape view item to".split()
)
"""Methods that keep the order of the samples."""
_CONVERTING = frozenset("array asarray tensor as_tensor from_numpy cat concatenate hstack vstack stack list".split())
"""Functions that keep the order of the samples."""
_HARMLESS = frozenset({"print", "len", "isinstance", "save", "dump", "append", "extend", "DataLoader", "TensorDataset"})
_CONTENTS = frozenset("targets labels data y classes_of ids names df files samples imgs".split())
_FEATURES = LazyPattern(r"(?i)embed|feat|latent|hidden|represent|(^|_)codes?(_|$)")
_DATA = LazyPattern(
    r"(?i)(^|_)(x|y|df|data|labels?|targets?|texts?|sentences|images|imgs|files|ids|names|inputs)(_|\d|$)"
)
"""Variables with one item for each sample."""
_PLACE = LazyPattern(r"(?i)(dir|folder|root|path)$")


class Shuffled(NamedTuple):
    """The code at `site` pairs `collected`, in the order of the loader made at `made`, with `ordered`."""

    site: Site
    made: Site
    collected: str
    ordered: str
    loader: str


class OrderOfShuffledLoader(Rule):
    """Predictions of a shuffled loader are paired with data in the dataset's order.

    ## What it does
    Finds lists that a loop over a loader with `shuffle=True` collects, in the same function or in one that it calls.
    The code passes such a list to a function together with `dataset.targets`, or with the arrays of the dataset, or
    it reads both at the same index, such as `predictions[i]` and `dataset[i]`.

    ## Why is this bad?
    The loader gives the samples in a random order. Each prediction is compared with the label of another sample, so
    accuracies are those of guessing. In a file of results, each prediction stands beside the name of another sample.
    There is no error, because both lists have the same length.

    ## Example
    ```python
    import torch
    from sklearn.metrics import accuracy_score
    from torch.utils.data import DataLoader

    @torch.no_grad()
    def evaluate(model, test_set):
        loader = DataLoader(test_set, batch_size=64, shuffle=True)
        predictions = []
        for x, _ in loader:
            predictions.extend(model(x).argmax(1).tolist())
        return accuracy_score(test_set.targets, predictions)
    ```

    Use instead:
    ```python
    import torch
    from sklearn.metrics import accuracy_score
    from torch.utils.data import DataLoader

    @torch.no_grad()
    def evaluate(model, test_set):
        loader = DataLoader(test_set, batch_size=64, shuffle=False)
        predictions = []
        for x, _ in loader:
            predictions.extend(model(x).argmax(1).tolist())
        return accuracy_score(test_set.targets, predictions)
    ```
    """

    code = "TL655"
    category = Category.CORRECTNESS
    triggers = ((b"torch",), (b"shuffle",), (b"oader",), (b".append(", b".extend(", b"+="))

    def ask(self) -> Iterator[Shuffled]:
        for call in self.model.tree.of_type(ast.Call) if not self.model.is_test else ():
            statement = self.model.tree.parent(call)
            is_bound = isinstance(statement, ast.Assign) and len(statement.targets) == 1
            if not is_bound or not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
                continue
            if self._shuffles(call):
                yield from self._of_loader(call, statement.targets[0])

    def _shuffles(self, call: ast.Call) -> bool:
        if names.imported(call.func, self.model.definitions) not in datasets.LOADERS:
            return False
        given = {item.arg: item.value for item in call.keywords}
        return "shuffle" in given and python_ast.is_literal(given["shuffle"], True) and "sampler" not in given

    def _of_loader(self, made: ast.Call, target: ast.Name) -> Iterator[Shuffled]:
        """The pairs of a loader's results with the contents of its dataset, in the same scope."""
        scope = self.model.tree.scope_around(made)
        nodes = [item for item in names.own_nodes(scope) if getattr(item, "lineno", 0) >= made.lineno]
        bound = [item for item in names.own_nodes(scope) if batch_sums.bound_by(item) == target.id]
        dataset = written.argument(made, 0, "dataset")
        if len(bound) != 1 or dataset is None or not python_ast.dotted(dataset):
            return
        collected = self._with_copies(dict(self._collected(target.id, nodes)), nodes)
        ordered = self._contents(dataset) - {batch_sums.bound_by(item) for item in nodes}
        for node in nodes if collected else ():
            found = self._pair(node, collected, ordered, python_ast.dotted(dataset), nodes)
            if found is not None:
                sites = python_ast.site_of(node), python_ast.site_of(made)
                yield Shuffled(*sites, *found, target.id)

    def _with_copies(self, collected: dict[str, int], nodes: list[ast.AST]) -> dict[str, int]:
        """The variables with the results, their conversions, and no variable that gets something else later."""
        for node in nodes:
            target = node.targets[0] if isinstance(node, ast.Assign) else None
            if not isinstance(node, ast.Assign) or not isinstance(target, ast.Name):
                continue
            source = _source(node.value)
            if source in collected and node.lineno > collected[source]:
                collected[target.id] = (
                    max(node.lineno, collected.get(target.id, 0)) if target.id != source else node.lineno
                )
            elif target.id in collected and node.lineno > collected[target.id]:
                del collected[target.id]
        return {name: line for name, line in collected.items() if _is_per_sample(name)}

    def _collected(self, loader: str, nodes: list[ast.AST]) -> Iterator[tuple[str, int]]:
        """The variables with results in the order of a loader, with the line from which on they have them."""
        for node in nodes:
            if isinstance(node, ast.For) and batch_sums.loader_of(node, self.model.definitions) == loader:
                yield from ((name, node.end_lineno or node.lineno) for name in _lists(node))
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                function = callees.function(node.value.func, self.model.definitions)
                given = callees.arguments(node.value, function) if function is not None else {}
                parameter = next((name for name, item in given.items() if python_ast.dotted(item) == loader), "")
                results = self._results(function, parameter) if function is not None and parameter else []
                target = node.targets[0]
                parts = target.elts if isinstance(target, ast.Tuple) else [target]
                if results and len(parts) == len(results):
                    yield from (
                        (part.id, node.end_lineno or node.lineno)
                        for part, is_collected in zip(parts, results, strict=True)
                        if is_collected and isinstance(part, ast.Name)
                    )

    def _results(self, function: FunctionInfo, parameter: str) -> list[bool]:
        """Which results of a function are lists that a loop over its parameter collects; empty if not known."""
        loops = [
            node for node in names.own_nodes(function.node)
            if isinstance(node, ast.For) and batch_sums.iterated(node.iter) == parameter
        ]  # fmt: skip
        value = names.returned_value(function)
        if len(loops) != 1 or value is None:
            return []
        lists = _lists(loops[0])
        parts = value.elts if isinstance(value, ast.Tuple) else [value]
        return [_source(item) in lists for item in parts]

    def _contents(self, dataset: ast.expr) -> set[str]:
        """The variables from which a dataset is created, which have its order."""
        value = written.value_of(dataset, self.model.definitions)
        if not isinstance(value, ast.Call) or any(isinstance(item, ast.Starred) for item in value.args):
            return set()
        sources = map(_source, python_ast.arguments(value))
        is_plain = python_ast.called_name(value) == "TensorDataset"
        return {item for item in sources if item and (is_plain or (_DATA.search(item) and not _PLACE.search(item)))}

    def _pair(
        self, node: ast.AST, collected: dict[str, int], ordered: set[str], dataset: str, nodes: list[ast.AST]
    ) -> tuple[str, str] | None:
        """The collected list and the ordered data that a node brings together."""
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and written.is_load(node):
            name = python_ast.dotted(node.value)
            is_after = name in collected and node.lineno > collected[name]
            same = (
                item
                for item in nodes
                if isinstance(item, ast.Subscript) and ast.dump(item.slice) == ast.dump(node.slice)
            )
            if is_after and any(isinstance(item.value, ast.Name) and item.value.id == dataset for item in same):
                return name, f"{dataset}[{self.model.tree.code(node.slice)}]"
            return None
        if not isinstance(node, (ast.Call, ast.Compare)):
            return None
        parts: list[ast.expr] = []
        if isinstance(node, ast.Call) and python_ast.called_name(node) not in _HARMLESS:
            parts = python_ast.arguments(node)
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
            parts = [node.left, *node.comparators]
        own = [name for name in map(_source, parts) if name in collected and node.lineno > collected[name]]
        others = [name for name in map(_source, parts) if name in ordered or self._is_content(name, dataset)]
        return (own[0], others[0]) if own and others and own[0] not in ordered else None

    def _is_content(self, name: str, dataset: str) -> bool:
        """Whether a dotted name is what a dataset holds for each sample: `dataset.targets`."""
        owner, _, last = name.rpartition(".")
        return owner == dataset and last in _CONTENTS

    def report_Shuffled(self, found: Shuffled) -> None:
        self.report(
            found.site,
            f"`{found.collected}` has the random order of `{found.loader}`, but `{found.ordered}` does not",
            related=[(found.made, "the loader shuffles")],
            help="create the loader with `shuffle=False`, or collect both in the loop",
        )


def _is_per_sample(name: str) -> bool:
    """Whether a list has predictions or features by its name, and not the losses of batches."""
    return metric_roles.of_name(name) is metric_roles.Role.PREDICTION or bool(_FEATURES.search(name))


def _is_item(node: ast.Subscript, dataset: str, index: ast.expr) -> bool:
    return python_ast.dotted(node.value) == dataset and ast.dump(node.slice) == ast.dump(index)


def _lists(loop: ast.For) -> set[str]:
    """The lists that a loop over batches collects."""
    found = set()
    for node in python_ast.walk(loop):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _COLLECTING:
            found.add(python_ast.dotted(node.func.value))
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
            is_list = isinstance(node.value, ast.Call) and python_ast.called_name(node.value) in ("tolist", "list")
            found |= {python_ast.dotted(node.target)} if is_list else set()
    return found - {""}


def _source(node: ast.expr) -> str:
    """The variable behind conversions that keep the order: `labels` of `np.array(labels)`, `x.cpu().numpy()`."""
    while isinstance(node, ast.Call):
        name = python_ast.called_name(node)
        if name in _KEEPING and isinstance(node.func, ast.Attribute):
            node = node.func.value
        elif name in _CONVERTING and node.args:
            node = node.args[0]
        else:
            return ""
    return python_ast.dotted(node) if isinstance(node, (ast.Name, ast.Attribute)) else ""
