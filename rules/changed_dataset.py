"""Datasets that modify their data in place whenever they return a sample."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import changed_arguments, names, written
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.model.definitions import FunctionInfo
    from torchlint.syntax.python_ast import Site

_ARRAY = LazyPattern(
    r"^(?:numpy\.(?:load|array|asarray|zeros|ones|[vh]?stack|concatenate|random\.\w+)"
    r"|torch\.(?:tensor|from_numpy|randn|rand|zeros|ones|stack|cat|FloatTensor|Tensor))$"
)
_CONVERTING = frozenset("astype float reshape view to copy clip clamp".split())
_DRAWING = frozenset({"numpy.random.default_rng", "numpy.random.RandomState"})
_DEEPEST = 8
_SCALING = (ast.Add, ast.Sub, ast.Mult, ast.Div)


class Changed(NamedTuple):
    """The statement at `site` modifies data that the code at `taken` took from the attribute `name`."""

    site: Site
    taken: Site
    name: str


class ChangedDataset(Rule):
    """`__getitem__` modifies the data of the dataset in place.

    ## What it does
    Finds `__getitem__` methods that take a row of an array or tensor of the dataset, `x = self.data[index]`, and modify
    it in place: `x -= self.mean`, `x.mul_(2)`, `x[mask] = 0`.

    ## Why is this bad?
    The row is a view of the dataset, so each access to a sample modifies the dataset. In the second epoch, samples are
    normalized twice, and in the tenth epoch ten times. With workers, each worker has a separate copy, so the same
    sample has different values in each of them. The copies are dropped after the epoch unless `persistent_workers` is
    set.

    ## Example
    ```python
    import numpy as np
    from torch.utils.data import Dataset

    class Signals(Dataset):
        def __init__(self, path):
            self.data = np.load(path)

        def __getitem__(self, index):
            x = self.data[index]
            x -= x.mean()
            return x
    ```

    Use instead:
    ```python
    import numpy as np
    from torch.utils.data import Dataset

    class Signals(Dataset):
        def __init__(self, path):
            self.data = np.load(path)

        def __getitem__(self, index):
            x = self.data[index]
            x = x - x.mean()
            return x
    ```

    ## References
    - [NumPy: copies and views](https://numpy.org/doc/stable/user/basics.copies.html)
    """

    code = "TL622"
    category = Category.CORRECTNESS
    triggers = ((b"__getitem__",), (b"torch",))

    def ask(self) -> Iterator[Changed]:
        for method in [] if self.model.is_test else self.model.definitions.functions.values():
            if method.name == "__getitem__" and method.owner is not None and len(method.parameters) > 1:
                yield from self._changes(method)

    def _changes(self, method: FunctionInfo) -> Iterator[Changed]:
        nodes = list(names.own_nodes(method.node))
        for taken in nodes:
            if not isinstance(taken, ast.Subscript) or not _is_row(taken.slice, method.parameters[1]):
                continue
            stores = [node for node in nodes if isinstance(node, ast.Name) and not written.is_load(node)]
            target = next((node for node in stores if written.assigned(node, self.model.definitions) is taken), None)
            attribute = python_ast.dotted(taken.value)
            if target is None or not attribute.startswith("self.") or attribute.count(".") > 1:
                continue
            made = self._made(taken.value)
            if _ARRAY.search(made):
                change = self._change(target, nodes)
                is_row = made.startswith("torch.") or _is_read_as_array(target.id, nodes)
                if change is not None and (is_row or not isinstance(change, ast.AugAssign)):
                    yield Changed(python_ast.site_of(change), python_ast.site_of(taken), attribute)

    def _made(self, node: ast.expr) -> str:
        """The function that creates an attribute's array or tensor, whose rows are views, or an empty string."""
        made = written.attribute_value(node, self.model.definitions) if isinstance(node, ast.Attribute) else None
        return self._maker(made.elt if isinstance(made, ast.ListComp) else made, _DEEPEST)

    def _maker(self, node: ast.expr | None, steps: int) -> str:
        """The function from whose result an expression is computed, if every step keeps it an array or tensor."""
        made = written.value_of(node, self.model.definitions) if node is not None else None
        if isinstance(made, ast.BinOp) and steps:
            return self._maker(made.left, steps - 1) or self._maker(made.right, steps - 1)
        if not isinstance(made, ast.Call) or not isinstance(made.func, ast.Attribute) or not steps:
            return ""
        qualified = names.imported(made.func, self.model.definitions)
        if qualified:
            is_mapped = qualified == "numpy.load" and any(item.arg == "mmap_mode" for item in made.keywords)
            return "" if is_mapped else qualified
        if made.func.attr in _CONVERTING:
            return self._maker(made.func.value, steps - 1)
        owner = written.value_of(made.func.value, self.model.definitions)
        is_drawn = isinstance(owner, ast.Call) and names.imported(owner.func, self.model.definitions) in _DRAWING
        return "numpy.random.rand" if is_drawn else ""

    def _change(self, name: ast.Name, nodes: list[ast.AST]) -> ast.AST | None:
        """The statement that modifies a variable in place, if nothing else is assigned to the variable."""
        stores = [
            node for node in nodes if isinstance(node, ast.Name) and node.id == name.id and not written.is_load(node)
        ]
        for store in stores:
            statement = self.model.tree.parent(store)
            if store is not name and not isinstance(statement, ast.AugAssign):
                call = written.assigned(store, self.model.definitions)
                return call if isinstance(call, ast.Call) and self._changes_by(call, name.id) else None
        for store in sorted(stores, key=lambda item: item.lineno):
            statement = self.model.tree.parent(store)
            if isinstance(statement, ast.AugAssign) and isinstance(statement.op, _SCALING):
                return statement
        return next((node for node in nodes if self._changes_by(node, name.id)), None)

    def _changes_by(self, node: ast.AST | None, name: str) -> bool:
        return node is not None and changed_arguments.is_change(node, name, self.model.definitions)

    def report_Changed(self, found: Changed) -> None:
        self.report(
            found.site,
            f"this modifies `{found.name}` itself every time the sample is loaded",
            related=[(found.taken, "the row is a view of the dataset")],
            help="compute a new array, or copy the row first",
        )


def _is_row(index: ast.expr, name: str) -> bool:
    """Whether an index takes a view of one row: `index`, or `index, ...`."""
    first, *rest = index.elts if isinstance(index, ast.Tuple) and index.elts else [index]
    is_view = all(
        isinstance(item, ast.Slice) or (isinstance(item, ast.Constant) and item.value is ...) for item in rest
    )
    return python_ast.dotted(first) == name and is_view


def _is_read_as_array(name: str, nodes: list[ast.AST]) -> bool:
    """Whether a variable holds more than one number: code uses its parts or shape, or makes a tensor of it."""
    for node in nodes:
        if isinstance(node, (ast.Attribute, ast.Subscript)) and python_ast.dotted(node.value) == name:
            return True
        if isinstance(node, ast.Call) and python_ast.called_name(node) == "from_numpy":
            if any(python_ast.dotted(item) == name for item in node.args):
                return True
    return False
