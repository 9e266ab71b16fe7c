"""One layer that a model contains several times."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_SHARED = LazyPattern(
    r"(?i)shar(e|ing)|\btie|tied|tying|universal|recur|unroll|reus|albert|siamese|same[ _](weight|layer|param)"
)
"""Words that show that sharing is intended."""
_REGISTERING = frozenset({"add_module", "register_module", "setattr", "append"})
_CONTAINERS = frozenset({"ModuleList", "Sequential", "ModuleDict"})


class RepeatedLayer(Rule):
    """A model contains one layer several times: the copies share their weights.

    ## What it does
    Finds one layer with parameters that a `ModuleList`, `Sequential` or `ModuleDict` receives several times:

    - `[nn.Linear(8, 8)] * n`;
    - `[layer for _ in range(n)]`;
    - `layers.append(layer)` or `layers += [layer]` in a loop that does not create the layer;
    - one variable in two places of a `Sequential`.

    Not reported if names, comments or docstrings mention sharing.

    ## Why is this bad?
    A network of twelve layers has the parameters of one. There is no error, the shapes match, and the model trains, but
    it is much smaller than intended. The checkpoint contains the same tensor twelve times.

    ## Example
    ```python
    from torch import nn

    class Mlp(nn.Module):
        def __init__(self, width, depth):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(width, width)] * depth)
    ```

    Use instead:
    ```python
    from torch import nn

    class Mlp(nn.Module):
        def __init__(self, width, depth):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(depth)])
    ```

    ## References
    - [torch.nn.ModuleList](https://docs.pytorch.org/docs/stable/generated/torch.nn.ModuleList.html)
    """

    code = "TL321"
    category = Category.SUSPICIOUS
    triggers = ((b"ModuleList", b"Sequential", b"ModuleDict", b"add_module", b"setattr", b"register_module"),)

    def ask(self) -> Iterator[Repeated]:
        for layer, place in self._repeated() if not self.model.is_test else ():
            made = self.model.provenance.made_layer(layer)
            if made is not None and not self._is_shared(layer, place):
                code = self.model.tree.code
                name = layer.id if isinstance(layer, ast.Name) else f"{code(layer).partition('(')[0]}(...)"
                yield Repeated(python_ast.site_of(place), name, python_ast.site_of(made))

    def _repeated(self) -> Iterator[tuple[ast.expr, ast.expr | ast.AugAssign]]:
        """A layer that one expression puts into a model several times, with that expression."""
        for node in self.model.tree.of_type(ast.BinOp):
            if isinstance(node.op, ast.Mult) and isinstance(node.left, ast.List) and not _is_one(node.right):
                yield from ((item, node) for item in node.left.elts if self._is_registered(node))
        for node in self.model.tree.of_type(ast.ListComp, ast.GeneratorExp, ast.DictComp):
            item = node.value if isinstance(node, ast.DictComp) else node.elt
            if isinstance(item, ast.Name) and item.id not in _bound(node.generators) and self._is_registered(node):
                yield item, node
        for grown, receiver in self._grown_lists():
            yield from ((item, grown) for item in _elements(grown) if self._is_repeated(grown, item, receiver))
        for call in self.model.tree.of_type(ast.Call):
            name, last = python_ast.called_name(call), call.args[-1] if call.args else None
            if name in _REGISTERING and isinstance(last, ast.Name) and self._is_registration(call, last):
                yield last, call
            elif name == "Sequential":
                names = [item for item in call.args if isinstance(item, ast.Name)]
                twice = (item for item in names if sum(item.id == other.id for other in names) > 1)
                yield from ((item, call) for item in {each.id: each for each in twice}.values())

    def _is_registered(self, made: ast.expr) -> bool:
        """Whether a list goes to a module container, directly or through a variable that nothing refills."""
        tree, node = self.model.tree, made
        while isinstance(parent := tree.parent(node), (ast.Starred, ast.List, ast.Tuple, ast.BinOp, ast.Call)):
            if isinstance(parent, ast.Call):
                return python_ast.called_name(parent) in _CONTAINERS and node in parent.args
            node = parent
        target = parent.targets[0] if isinstance(parent, ast.Assign) else None
        return isinstance(target, ast.Name) and self._goes_to_container(target)

    def _goes_to_container(self, name: ast.Name) -> bool:
        """Whether a named list goes to a module container, and none of its elements is replaced."""
        tree, scope = self.model.tree, self.model.tree.scope_around(name)
        uses = [node for node in python_ast.walk(scope) if isinstance(node, ast.Name) and node.id == name.id]
        around = [(node, tree.parent(node)) for node in uses]
        if any(isinstance(item, ast.Subscript) and isinstance(item.ctx, ast.Store) for _, item in around):
            return False
        given = ((node, tree.parent(item) if isinstance(item, ast.Starred) else item) for node, item in around)
        return any(isinstance(item, ast.Call) and python_ast.called_name(item) in _CONTAINERS for _, item in given)

    def _grown_lists(self) -> Iterator[tuple[ast.Call | ast.AugAssign, ast.expr]]:
        """The places that add a written list to another one: `layers += [layer]`, `layers.extend([layer])`."""
        for node in self.model.tree.of_type(ast.AugAssign):
            if isinstance(node.op, ast.Add) and isinstance(node.value, ast.List):
                yield node, node.target
        for call in self.model.tree.of_type(ast.Call):
            if isinstance(call.func, ast.Attribute) and call.func.attr == "extend" and len(call.args) == 1:
                yield call, call.func.value

    def _is_registration(self, call: ast.Call, layer: ast.Name) -> bool:
        """Whether a loop registers, in each iteration, a layer that it does not create."""
        if python_ast.called_name(call) == "append":
            return self._is_repeated(call, layer, getattr(call.func, "value", None))
        has_one_name = isinstance(call.args[-2] if len(call.args) > 1 else None, ast.Constant)
        return not has_one_name and self._is_of_outside(call, layer)

    def _is_repeated(self, place: ast.AST, layer: ast.Name, receiver: ast.expr | None) -> bool:
        """Whether a loop adds a layer that it does not create to a list of layers."""
        if not self._is_of_outside(place, layer):
            return False
        made = self.model.provenance.created(receiver) if receiver is not None else None
        is_list = isinstance(made, ast.Call) and python_ast.called_name(made) in _CONTAINERS
        return is_list or (isinstance(receiver, ast.Name) and self._goes_to_container(receiver))

    def _is_of_outside(self, place: ast.AST, layer: ast.Name) -> bool:
        """Whether a place is in a loop that does not bind a variable."""
        loop = self.model.tree.loop_around(place)
        return loop is not None and layer.id not in self.model.definitions.names_assigned([loop])

    def _is_shared(self, layer: ast.expr, place: ast.expr | ast.AugAssign) -> bool:
        """Whether nearby words say that the layers share their weights on purpose."""
        tree = self.model.tree
        around = [item for item in tree.ancestors(place) if isinstance(item, (*python_ast.FUNCTIONS, ast.ClassDef))]
        first = python_ast.site_of(tree.statement(place)).line
        lines = tree.source.program_lines[max(first - 4, 0) : first]
        return any(_SHARED.search(text) for text in (*lines, *map(tree.code, around)))

    def report_Repeated(self, found: Repeated) -> None:
        self.report(
            found.site,
            f"`{found.name}` is a single layer, registered several times: every place uses the same weights",
            related=[(found.made, "it is created once, here")],
            help="create a layer for each place, or copy it with `copy.deepcopy`",
        )


class Repeated(NamedTuple):
    """One layer, created at `made`, enters a model several times at `site`."""

    site: Site
    name: str
    made: Site


def _elements(grown: ast.Call | ast.AugAssign) -> Iterator[ast.Name]:
    """The variables in the list that is added to another one."""
    added = grown.args[0] if isinstance(grown, ast.Call) else grown.value
    yield from (item for item in getattr(added, "elts", ()) if isinstance(item, ast.Name))


def _is_one(count: ast.expr) -> bool:
    return isinstance(count, ast.Constant) and count.value in (0, 1)


def _bound(generators: list[ast.comprehension]) -> set[str]:
    return {item.id for each in generators for item in python_ast.walk(each.target) if isinstance(item, ast.Name)}
