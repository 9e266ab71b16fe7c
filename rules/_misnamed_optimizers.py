"""Optimizers that are named after one network and get the parameters of another, which has an optimizer already."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint.model import definitions
from torchlint.syntax import python_ast

from ._repeated_parameters import given_to, module_of, parameters_of

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_GENERAL = frozenset(
    "opt optim optimizer optimiser optimizers solver trainer net network model module self the my".split()
)
"""Words that say nothing about which network is meant."""
_NOT_TRAINED = frozenset("target targets teacher ema old prev frozen ref reference avg average".split())
_HANDS_OVER = re.compile(r"opt|param(?!eters$)|group|ModuleList|Sequential|prepare|freez", re.IGNORECASE)
"""Calls that may give the parameters of an argument to an optimizer."""


class OfAnother(NamedTuple):
    """The optimizer `name` gets the parameters of `held` at `site`, as `first` does; none gets those of `missed`."""

    site: Site
    name: str
    held: str
    missed: str
    first: Site


class _Optimizer(NamedTuple):
    name: str
    words: frozenset[str]
    given: ast.Call
    held: str


class MisnamedOptimizers:
    """Optimizers by name, in one file."""

    def __init__(self, known: definitions.Definitions) -> None:
        self._known = known
        self._tree = known.tree

    def all(self) -> Iterator[OfAnother]:
        """One of several optimizers of a network, if it is named after a network that no optimizer has."""
        made: dict[tuple[object, str], list[_Optimizer]] = defaultdict(list)
        for statement in self._tree.of_type(ast.Assign):
            found = self._optimizer(statement)
            if found is not None:
                made[self._known.function_around(statement), found.held].append(found)
        for same in made.values():
            for item in same:
                first = next((other for other in same if other is not item), None)
                missed = self._missed(item) if first is not None else None
                if missed is not None and first is not None:
                    sites = [python_ast.site_of(each.given) for each in (item, first)]
                    yield OfAnother(sites[0], item.name, item.held, missed, sites[1])

    def _optimizer(self, statement: ast.Assign) -> _Optimizer | None:
        call, name = statement.value, python_ast.dotted(statement.targets[0])
        if len(statement.targets) > 1 or not isinstance(call, ast.Call) or "opt" not in name.lower():
            return None
        given = given_to(call)
        taken = parameters_of(given) if given is not None else None
        held = module_of(taken) if taken is not None else ""
        words = words_of(name)
        return _Optimizer(name, words, taken, held) if taken is not None and held and words else None

    def _missed(self, optimizer: _Optimizer) -> str | None:
        """The one network that an optimizer is named after, beside the network whose parameters it gets."""
        prefix = optimizer.held.rpartition(".")[0]
        is_own = is_named_after(optimizer.words, words_of(optimizer.held))
        if is_own or optimizer.words & _NOT_TRAINED or prefix not in ("", "self"):
            return None
        nodes = list(self._around(optimizer))
        called = {python_ast.dotted(node.func) for node in nodes if isinstance(node, ast.Call)}
        named = [name for name in called if name.rpartition(".")[0] == prefix and name != optimizer.held]
        named = [name for name in named if not words_of(name) & _NOT_TRAINED]
        found = [name for name in named if is_named_after(optimizer.words, words_of(name))]
        left_out = [name for name in found if self._is_made(name, optimizer) and self._is_left_out(name, nodes)]
        return left_out[0] if len(left_out) == 1 else None

    def _around(self, optimizer: _Optimizer) -> Iterator[ast.AST]:
        """The nodes of the class, the function or the module that sees an optimizer under its name."""
        method = self._known.method_around(optimizer.given)
        owner = method.owner if method is not None and optimizer.name.startswith("self.") else None
        scope = owner.node if owner is not None else method.node if method is not None else self._tree.module
        return python_ast.walk(scope)

    def _is_left_out(self, name: str, nodes: list[ast.AST]) -> bool:
        """Whether no code reads the parameters of a network, or passes it to a call that may do so."""
        for node in nodes:
            if isinstance(node, ast.Attribute) and "param" in node.attr and python_ast.dotted(node.value) == name:
                if not self._is_clipped(node):
                    return False
            if isinstance(node, ast.Call) and _HANDS_OVER.search(python_ast.called_name(node)):
                inside = (item for item in python_ast.walk(node) if isinstance(item, (ast.Name, ast.Attribute)))
                if any(python_ast.dotted(item) == name for item in inside):
                    return False
        return True

    def _is_clipped(self, method: ast.AST) -> bool:
        """Whether code only clips the gradients of the parameters: `clip_grad_norm_(net.parameters(), 1)`."""
        call = self._tree.parent(method)
        user = self._tree.parent(call) if call is not None else None
        return isinstance(user, ast.Call) and python_ast.called_name(user).startswith("clip_grad")

    def _is_made(self, name: str, optimizer: _Optimizer) -> bool:
        """Whether an assignment gives a new or a received network to a name, and is no part of the other network."""
        function = self._known.function_around(optimizer.given)
        received = {item.arg for item in definitions.all_parameters(function.node)} if function is not None else set()
        made = [value for target, value in self._assigned(function) if python_ast.dotted(target) == name]
        if name in received:
            return True
        return bool(made) and all(
            python_ast.dotted(value) in received if not isinstance(value, ast.Call) else _makes_module(value)
            for value in made
        )

    def _assigned(self, function: definitions.FunctionInfo | None) -> Iterator[tuple[ast.expr, ast.expr]]:
        """The targets and values of the assignments in a function, or in the module itself."""
        for node in self._tree.of_type(ast.Assign):
            if self._known.function_around(node) is function:
                for target in node.targets:
                    yield from _pairs(target, node.value)


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        yield from zip(target.elts, value.elts, strict=True)
    else:
        yield target, value


def _makes_module(call: ast.Call) -> bool:
    """Whether a call creates an object of a class, perhaps moved: `Critic(4).to(device)`."""
    inner = call.func.value if isinstance(call.func, ast.Attribute) else None
    while isinstance(inner, ast.Call):
        call, inner = inner, inner.func.value if isinstance(inner.func, ast.Attribute) else None
    return python_ast.called_name(call)[:1].isupper()


def words_of(name: str) -> frozenset[str]:
    """The words of a name that tell which network it is about; a number belongs to the word before it."""
    found: list[str] = []
    for word in _WORD.findall(name.rpartition(".")[2]):
        if word.isdigit() and found:
            found[-1] += word
        else:
            found.append(word.lower())
    return frozenset(found) - _GENERAL


def is_named_after(optimizer: frozenset[str], network: frozenset[str]) -> bool:
    """Whether the words of an optimizer name a network, perhaps shortened: `d` or `disc` for `discriminator`."""
    return bool(network) and all(any(long.startswith(short) for long in network) for short in optimizer)
