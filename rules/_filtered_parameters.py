"""Parameters that are unfrozen after an optimizer took only those that required gradients."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint.model.definitions import FunctionInfo
from torchlint.model.queries import callees, freezing, names, written
from torchlint.pytorch import naming
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint import Model
    from torchlint.syntax.python_ast import Site


class Unfrozen(NamedTuple):
    """`place` is unfrozen at `site`, but the optimizer made at `made` took only parameters that required gradients."""

    site: Site
    place: str
    made: Site
    frozen: Site


class _Switch(NamedTuple):
    """A statement that freezes or unfreezes all parameters of `place`."""

    node: ast.stmt
    place: str
    learns: bool


class FilteredParameters:
    """Finds unfrozen parameters that the file's only optimizer of a network lacks, by names."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.tree = model.tree

    def all(self) -> Iterator[Unfrozen]:
        made = [call for call in self.tree.of_type(ast.Call) if self._makes_optimizer(call)]
        for call in made:
            network = self._filtered(call)
            others = (other for other in made if other is not call)
            if network and not any(network.rpartition(".")[2] in _words(other) for other in others):
                if self._is_bound_once(call):
                    yield from self._unfrozen(call, network)

    def _makes_optimizer(self, call: ast.Call) -> bool:
        is_named = naming.is_optimizer_class(python_ast.called_name(call))
        return is_named and "lr_scheduler" not in self.model.definitions.named(call.func)

    def _is_bound_once(self, call: ast.Call) -> bool:
        """Whether the file gives the optimizer's name no other value."""
        statement = self.tree.parent(call)
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        if not isinstance(target, (ast.Name, ast.Attribute)):
            return False
        stores = (item for item in self.tree.of_type(ast.Name, ast.Attribute) if isinstance(item.ctx, ast.Store))
        last = python_ast.dotted(target).rpartition(".")[2]
        return sum(python_ast.dotted(item).rpartition(".")[2] == last for item in stores) == 1

    def _filtered(self, call: ast.Call) -> str:
        """The network whose parameters an optimizer takes if they require gradients; empty for others."""
        given = written.argument(call, 0, "params")
        value = names.only_value(given, self.model.definitions) if isinstance(given, ast.Name) else given
        if isinstance(value, ast.Call) and python_ast.called_name(value) == "list" and len(value.args) == 1:
            value = value.args[0]
        if isinstance(value, ast.Call) and python_ast.called_name(value) == "filter" and len(value.args) == 2:
            return freezing.owner_of(value.args[1]) if freezing.FLAG in self.tree.code(value.args[0]) else ""
        if isinstance(value, (ast.ListComp, ast.GeneratorExp)) and len(value.generators) == 1:
            only = value.generators[0]
            is_filter = (
                len(only.ifs) == 1 and isinstance(only.ifs[0], ast.Attribute) and only.ifs[0].attr == freezing.FLAG
            )
            return freezing.owner_of(only.iter) if is_filter else ""
        return ""

    def _unfrozen(self, call: ast.Call, network: str) -> Iterator[Unfrozen]:
        function = self.model.definitions.function_around(call)
        own = list(self._switches(function.node if function is not None else self.tree.module))
        before = [item for item in own if item.node.lineno < call.lineno]
        later = [item for item in own if item.node.lineno > call.lineno]
        if function is not None and function.owner is not None and function.name == "__init__":
            later += self._in_methods(function)
        for switch in later:
            is_inside = switch.place == network or switch.place.startswith(f"{network}.")
            covering = [item for item in before if f"{switch.place}.".startswith(f"{item.place}.")]
            if not switch.learns or not is_inside or not covering or covering[-1].learns:
                continue
            if self._steps_after(switch.node, call):
                sites = (python_ast.site_of(item) for item in (switch.node, call, covering[-1].node))
                site, made, frozen = sites
                yield Unfrozen(site, switch.place, made, frozen)
                return

    def _steps_after(self, switch: ast.AST, call: ast.Call, depth: int = 1) -> bool:
        """Whether code after a switch uses the optimizer, also in a loop around it or after a call to its method."""
        statement = self.tree.parent(call)
        name = python_ast.dotted(statement.targets[0]) if isinstance(statement, ast.Assign) else ""
        function = self.model.definitions.function_around(switch)
        making = set(self.tree.ancestors(call))  # an iteration of these loops makes the optimizer anew
        loops = [item for item in self.tree.ancestors(switch) if isinstance(item, python_ast.LOOPS)]
        loops = [item for item in loops if item not in making]
        again = [node for loop in loops for node in python_ast.walk(loop)]
        after = names.own_nodes(function.node if function is not None else self.tree.module)
        end = getattr(switch, "end_lineno", 0)
        for node in (*again, *(item for item in after if getattr(item, "lineno", 0) > end)):
            if isinstance(node, (ast.Name, ast.Attribute)) and python_ast.dotted(node) == name:
                return True
        if function is None or function.owner is None or not depth:
            return False
        calls = (item for item in python_ast.walk(function.owner.node) if isinstance(item, ast.Call))
        return any(self._steps_after(item, call, 0) for item in calls if python_ast.called_name(item) == function.name)

    def _in_methods(self, init: FunctionInfo) -> list[_Switch]:
        """The switches in the other methods of a class, of which `__init__` calls none."""
        called = {python_ast.called_name(item) for item in python_ast.walk(init.node) if isinstance(item, ast.Call)}
        methods = [item for item in self.model.definitions.functions.values() if item.owner is init.owner]
        others = [item for item in methods if item is not init and item.name not in called]
        return [switch for item in others for switch in self._switches(item.node) if switch.place.startswith("self.")]

    def _switches(self, scope: ast.AST, depth: int = 1) -> Iterator[_Switch]:
        """The statements of a function or the module that freeze or unfreeze, in order."""
        for node in names.own_nodes(scope):
            own = (item for item in freezing.settings(node, self.tree) if not item.is_partial)
            yield from (_Switch(item.statement, item.owner, item.flag) for item in own)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and depth:
                yield from self._called(node, node.value, depth)

    def _called(self, statement: ast.Expr, call: ast.Call, depth: int) -> Iterator[_Switch]:
        """The switches of a function of the file for its arguments."""
        function = names.function(call.func, self.model.definitions)
        if function is None or isinstance(function.node, ast.Lambda):
            return
        given = callees.arguments(call, function)
        for switch in self._switches(function.node, depth - 1):
            first, _, rest = switch.place.partition(".")
            outer = python_ast.dotted(given[first]) if first in given else "self" if first == "self" else ""
            if outer:
                yield _Switch(statement, f"{outer}.{rest}" if rest else outer, switch.learns)


def _words(call: ast.Call) -> set[str]:
    """The names and attributes in a call."""
    return {part for name in python_ast.names_read(call) for part in name.split(".")}
