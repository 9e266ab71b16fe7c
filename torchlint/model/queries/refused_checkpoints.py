"""Refused checkpoints: saved values that `torch.load` does not accept, because it loads only weights by default."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchlint.index import FileIndex
from torchlint.model.queries import variables
from torchlint.model.queries.autograd_functions import returns_of
from torchlint.syntax.python_ast import called_name, walk, written_alike

if TYPE_CHECKING:
    from torchlint.model.model import Model

_SAFE_SINCE = (2, 6)
"""The first release whose `torch.load` loads only weights by default."""
_ALLOWING = ("safe_globals", "NO_WEIGHTS_ONLY", "pickle_module")
"""Words in files that allow other objects."""
_OF_ARRAYS = frozenset({"mean", "sum", "max", "min", "std", "copy", "astype", "round"})
"""Methods of NumPy's arrays that give numbers or arrays of NumPy."""
_OF_MODULES = frozenset({"parameters", "named_parameters", "state_dict", "train", "eval", "load_state_dict"})


class RefusedCheckpoints:
    """Answers about the checkpoints that a file saves."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.files = model.provenance.files
        text = model.tree.source.text
        self.are_checked = model.torch.highest >= _SAFE_SINCE and not any(word in text for word in _ALLOWING)
        """Whether the project may use a release that refuses objects, and the file allows none of them."""

    def is_refusing(self, load: ast.Call) -> bool:
        """Whether a call is `torch.load` with the default, which accepts only weights."""
        is_default = len(load.args) < 3 and not any(item.arg in ("weights_only", None) for item in load.keywords)
        return self.are_checked and is_default and self.model.definitions.named(load.func) == "torch.load"

    def entry(self, saved: ast.expr) -> tuple[str, str] | None:
        """The first entry of a saved object that a load refuses: its key and its kind."""
        for key, value in self.files.entries(saved):
            what = self._kind(value)
            if what:
                return key, what
        return None

    def has_only_refused(self) -> bool:
        """Whether each load of the file refuses, and so does a saved dictionary with states: no resume succeeds."""
        calls = FileIndex.of(self.model.tree).calls_named("load")
        loads = [call for call in calls if self.model.definitions.named(call.func) == "torch.load"]
        return bool(loads) and all(map(self.is_refusing, loads)) and any(map(self._is_lost, self.files.saves))

    def _is_lost(self, save: tuple[ast.expr, ast.expr, ast.Call]) -> bool:
        values = [value for _, value in self.files.entries(save[0])]
        has_states = any(isinstance(value, ast.Call) and called_name(value) == "state_dict" for value in values)
        return has_states and self.entry(save[0]) is not None

    def _kind(self, value: ast.expr, depth: int = 2) -> str:
        """The kind of a value that `torch.load` refuses, or an empty string if it may accept the value."""
        if isinstance(value, (ast.Name, ast.Attribute)) and self._is_module(value):
            return "a module"
        if self.model.provenance.is_optimizer(value):
            return "an optimizer"
        made = self.files.value_at(value) or self.model.provenance.created(value)
        if made is None and (given := self.files.given(value)) and depth:
            return self._common_kind(given, depth)
        if made is None and isinstance(value, ast.Name) and (given := self._returned(value)) and depth:
            return self._common_kind(given, depth)
        if isinstance(made, ast.Call) and called_name(made) == "parse_args":
            return "the arguments of the program"
        return "a NumPy value" if made is not None and self._is_numpy(made) else ""

    def _common_kind(self, given: list[ast.expr], depth: int) -> str:
        kinds = {self._kind(item, depth - 1) for item in given}
        return kinds.pop() if len(kinds) == 1 else ""

    def _returned(self, name: ast.Name) -> list[ast.expr]:
        """The results of a function of the file that give a variable its values: `loss, accuracy = test(model)`."""
        tree, found = self.model.tree, list[ast.expr]()
        for place in variables.bindings(name.id, name, self.model.definitions):
            targets, statement = tree.parent(place), tree.statement(place)
            if not isinstance(targets, ast.Tuple) or not isinstance(statement, ast.Assign):
                return []
            called = self.model.provenance.function_called(statement.value)
            results = returns_of(called) if called is not None and called.definitions.tree is tree else []
            for result in results:
                if not isinstance(result, ast.Tuple) or len(result.elts) != len(targets.elts):
                    return []
                found.append(result.elts[targets.elts.index(place)])
        return found

    def _is_numpy(self, made: ast.expr) -> bool:
        """Whether a value surely is a number or an array of NumPy: `np.mean(x)`, `np.array(x).max()`."""
        if isinstance(made, ast.Call):
            if self.model.definitions.named(made.func).startswith("numpy."):
                return True
            owner = made.func.value if isinstance(made.func, ast.Attribute) else None
            if owner is None or called_name(made) not in _OF_ARRAYS:
                return False
            value = self.files.value_at(owner)
            return value is not None and self._is_numpy(value)
        return isinstance(made, ast.BinOp) and (self._is_numpy(made.left) or self._is_numpy(made.right))

    def _is_module(self, value: ast.expr) -> bool:
        """Whether a name means a module, judged by the call that creates it or by its method calls."""
        made = self.model.provenance.created(value)
        if isinstance(made, ast.Call) and self.model.provenance.has_weights(made):
            return True
        scope = self.model.definitions.method_around(value)
        owner = scope.owner if scope is not None and isinstance(value, ast.Attribute) else None
        region = owner.node if owner is not None else scope.node if scope is not None else self.model.tree.module
        used = (node for node in walk(region) if isinstance(node, ast.Attribute) and node.attr in _OF_MODULES)
        uses = {node.attr for node in used if written_alike(node.value, value)}
        return bool(uses & {"parameters", "named_parameters"}) or len(uses) > 1 or uses == {"eval"}
