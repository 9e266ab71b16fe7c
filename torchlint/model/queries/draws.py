"""Draws from the global random generators, and the statements of a script that certainly run."""

from __future__ import annotations

import ast
from functools import cached_property

from torchlint.index import FileIndex
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.definitions import Definitions, FunctionInfo, defaults_of
from torchlint.model.queries import names
from torchlint.pytorch import randomness, stateful_modules
from torchlint.syntax.python_ast import COMPREHENSIONS, LOOPS, called_name, dotted, is_literal

_WEIGHTS = stateful_modules.WEIGHTED - {"PReLU"}
"""Layers of `torch.nn` that draw their weights."""
_LOADS = LazyPattern(
    r"load_state_dict|from_pretrained|load_from_checkpoint|load_weights|load_model|[\"']meta[\"']|to_empty"
)
"""Calls that replace the drawn weights of layers."""
_MEANT = LazyPattern(
    r"seed|port\b|port_|uuid|suffix|salt|dummy|example_input|sleep|export|trace|summary|profile|flops|macs|add_graph"
    r"|benchmark|warm|run_?name|_id\b"
)
"""Uses of drawn numbers whose value does not matter or should differ: a seed, a port, a model trace."""
_REPEATS = (*LOOPS, *COMPREHENSIONS)
_STARTS = frozenset(("spawn", "run", "Fire", "start_processes"))
"""Functions that call their first argument."""


class Draws:
    """Draws of a script from the global generators, found in the text of the program."""

    def __init__(self, definitions: Definitions) -> None:
        self._definitions = definitions
        self._tree = definitions.tree
        self._loads_weights = bool(_LOADS.search(self._tree.source.text))

    def generator(self, call: ast.Call) -> str | None:
        """The global generator that a call surely draws from, if the drawn numbers matter."""
        name = names.imported(call.func, self._definitions)
        module, _, last = name.rpartition(".")
        if module == "random" and last in randomness.DRAWING_FROM_PYTHON:
            found = "random"
        elif module == "numpy.random" and last in randomness.DRAWING_FROM_NUMPY:
            found = "numpy.random"
        elif self._is_of_torch(call, name):
            found = "torch"
        else:
            return None
        return None if self._may_be_any_number(call) or self._is_switched_off(call) else found

    def _is_of_torch(self, call: ast.Call, name: str) -> bool:
        options = {item.arg: item.value for item in call.keywords}
        if None in options or len(call.args) > randomness.BEFORE_GENERATOR.get(name, len(call.args)):
            return False
        if not is_literal(options.get("generator", ast.Constant(None)), None):
            return False
        module, _, last = name.rpartition(".")
        if module == "torch.nn":
            return last in _WEIGHTS and not self._loads_weights
        if name == "torch.utils.data.DataLoader":
            return is_literal(options.get("shuffle", ast.Constant(None)), True)
        is_method = isinstance(call.func, ast.Attribute) and not name and call.func.attr in randomness.DRAWING_IN_PLACE
        return name in randomness.DRAWING_FROM_TORCH or is_method

    def _may_be_any_number(self, call: ast.Call) -> bool:
        """Whether the drawn number should differ in each run, or only its shape matters."""
        for node in self._tree.ancestors(call):
            words = []
            if isinstance(node, ast.Call):
                words = [called_name(node), *(str(item.value) for item in node.args if isinstance(item, ast.Constant))]
            elif isinstance(node, ast.keyword):
                words = [node.arg or ""]
            elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                words = [dotted(target) for target in targets]
            if any(_MEANT.search(word.lower()) for word in words):
                return True
            if isinstance(node, ast.stmt):
                return False
        return False

    def _is_switched_off(self, call: ast.Call) -> bool:
        """Whether a call is under a flag of its function that is off by default and that no call sets."""
        function = self._definitions.function_around(call)
        defaults = defaults_of(function.node) if function is not None else {}
        off = {name for name, value in defaults.items() if is_literal(value, False) or is_literal(value, None)}
        for node in self._tree.ancestors(call):
            if function is None or node is function.node:
                return False
            if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id in off - self._named:
                return True
        return False

    @cached_property
    def _named(self) -> set[str]:
        """The parameter names that calls use as keywords."""
        return {str(item.arg) for item in self._tree.of_type(ast.keyword)}


def is_repeated(call: ast.Call, definitions: Definitions) -> bool:
    """Whether a call is in a loop, or a loop calls the function that contains it."""
    pending: list[ast.AST] = [call]
    seen: set[FunctionInfo] = set()
    while pending:
        node = pending.pop()
        for item in definitions.tree.ancestors(node):
            if isinstance(item, _REPEATS):
                return True
            if item in definitions.functions:
                break
        function = definitions.function_around(node)
        if function is not None and function not in seen:
            seen.add(function)
            name = function.owner.name if function.owner and function.name == "__init__" else function.name
            pending += FileIndex.of(definitions.tree).calls_named(name)
    return False
