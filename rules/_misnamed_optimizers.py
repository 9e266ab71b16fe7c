"""Optimizers that get the wrong parameters: those of another network, by their names, or those of one network twice."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from itertools import permutations
from typing import TYPE_CHECKING, NamedTuple

from torchlint.model import definitions
from torchlint.model.queries import written
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site
    from torchlint.syntax.python_tree import PythonTree

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_GENERAL = frozenset(
    "opt optim optimizer optimiser optimizers solver trainer net network model module self the my".split()
)
"""Words that say nothing about which network is meant."""
_NOT_TRAINED = frozenset("target targets teacher ema old prev frozen ref reference avg average".split())
_HANDS_OVER = re.compile(r"opt|param(?!eters$)|group|ModuleList|Sequential|prepare|freez", re.IGNORECASE)
"""Calls that may give the parameters of an argument to an optimizer."""
_SUFFIXES = ("_parameters", "_params")
_ALSO = {
    "decoder": {"generator"}, "policy": {"actor"}, "pi": {"actor"}, "actor": {"policy", "pi"},
    "value": {"critic"}, "critic": {"value", "discriminator"}, "discriminator": {"critic"},
}  # fmt: skip
"""Other names of networks. A decoder may be called a generator, but a generator no decoder."""


class Exchanged(NamedTuple):
    """The optimizer `name` gets the parameters of `held` at `site`, and `other` gets its own ones at `there`."""

    site: Site
    name: str
    held: str
    other: str
    there: Site


class Twice(NamedTuple):
    """The expression at `site` repeats the parameters of `name`, which `first` contains already."""

    site: Site
    name: str
    first: Site


class OfAnother(NamedTuple):
    """The optimizer `name` gets the parameters of `held` at `site`, as `first` does; none gets those of `missed`."""

    site: Site
    name: str
    held: str
    missed: str
    first: Site


class _Optimizer(NamedTuple):
    """The optimizer `name` gets the parameters `given`, which are those of the network `held`."""

    name: str
    words: frozenset[str]
    given: ast.expr
    held: str
    scope: object
    is_of_torch: bool

    def is_after(self, network: str) -> bool:
        """Whether its name means a network, under one of the names of such networks."""
        words = _words_of(network)
        return _is_named_after(self.words, words.union(*(_ALSO.get(word, ()) for word in words)))


class MisnamedOptimizers:
    """Optimizers by name, in one file."""

    def __init__(self, known: definitions.Definitions) -> None:
        self._known = known
        self._tree = known.tree

    @cached_property
    def _optimizers(self) -> list[_Optimizer]:
        """The optimizers that the file creates with the parameters of one network."""
        found = []
        for statement in self._tree.of_type(ast.Assign):
            call, name = statement.value, python_ast.dotted(statement.targets[0])
            if len(statement.targets) > 1 or not isinstance(call, ast.Call) or not _words_of(name):
                continue
            given = written.argument(call, 0, "params")
            held = _held(given) if given is not None else ""
            is_of_torch = self._known.named(call.func).startswith("torch.optim.")
            if given is not None and held and (is_of_torch or "opt" in name.lower()):
                scope = self._known.function_around(statement)
                found.append(_Optimizer(name, _words_of(name), given, held, scope, is_of_torch))
        return found

    def exchanged(self) -> Iterator[Exchanged]:
        """Pairs of optimizers of a function with exchanged parameters, whose steps use different backward passes."""
        made: dict[object, list[_Optimizer]] = defaultdict(list)
        for item in self._optimizers:
            if item.is_of_torch:
                made[item.scope].append(item)
        done: set[str] = set()
        for one, other in (pair for same in made.values() for pair in permutations(same, 2)):
            if one.name not in done and _are_exchanged(one, other) and _step_apart(one.name, other.name, self._known):
                done |= {one.name, other.name}
                sites = [python_ast.site_of(item.given) for item in (one, other)]
                yield Exchanged(sites[0], one.name, one.held, other.name, sites[1])

    def of_another(self) -> Iterator[OfAnother]:
        """One of several optimizers of a network, if it is named after a network that no optimizer has."""
        made: dict[tuple[object, str], list[_Optimizer]] = defaultdict(list)
        for item in self._optimizers:
            if "opt" in item.name.lower() and _parameters_of(item.given) is not None:
                made[item.scope, item.held].append(item)
        for same in made.values():
            for item in same:
                first = next((other for other in same if other is not item), None)
                missed = self._missed(item) if first is not None else None
                if missed is not None and first is not None:
                    sites = [python_ast.site_of(_parameters_of(each.given) or each.given) for each in (item, first)]
                    yield OfAnother(sites[0], item.name, item.held, missed, sites[1])

    def _missed(self, optimizer: _Optimizer) -> str | None:
        """The one network that an optimizer is named after, beside the network whose parameters it gets."""
        prefix = optimizer.held.rpartition(".")[0]
        is_own = _is_named_after(optimizer.words, _words_of(optimizer.held))
        if is_own or optimizer.words & _NOT_TRAINED or prefix not in ("", "self"):
            return None
        nodes = list(self._around(optimizer))
        called = {python_ast.dotted(node.func) for node in nodes if isinstance(node, ast.Call)}
        named = [name for name in called if name.rpartition(".")[0] == prefix and name != optimizer.held]
        named = [name for name in named if not _words_of(name) & _NOT_TRAINED]
        found = [name for name in named if _is_named_after(optimizer.words, _words_of(name))]
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


def _words_of(name: str) -> frozenset[str]:
    """The words of a name that tell which network it is about; a number belongs to the word before it."""
    found: list[str] = []
    for word in _WORD.findall(name.rpartition(".")[2]):
        if word.isdigit() and found:
            found[-1] += word
        else:
            found.append(word.lower())
    return frozenset(found) - _GENERAL


def _is_named_after(optimizer: frozenset[str], network: frozenset[str]) -> bool:
    """Whether the words of an optimizer name a network, perhaps shortened: `d` or `disc` for `discriminator`."""
    return bool(network) and all(any(long.startswith(short) for long in network) for short in optimizer)


def repeated_parameters(tree: PythonTree) -> Iterator[Twice]:
    """The second mention of a module in a sum of lists, or in `itertools.chain`."""
    for node in tree.of_type(ast.BinOp, ast.Call):
        if isinstance(tree.parent(node), ast.BinOp):
            continue  # a part of a longer sum
        parts = _summands(node) if isinstance(node, ast.BinOp) else _chained(node)
        seen: dict[str, ast.Call] = {}
        for call in map(_parameters_of, parts):
            name = _owner(call) if call is not None else ""
            if call is not None and name in seen:
                yield Twice(python_ast.site_of(call), name, python_ast.site_of(seen[name]))
            elif call is not None and name:
                seen[name] = call


def _summands(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return [*_summands(node.left), *_summands(node.right)]
    return [node]


def _chained(call: ast.Call) -> list[ast.expr]:
    return call.args if python_ast.called_name(call) == "chain" else []


def _parameters_of(node: ast.expr) -> ast.Call | None:
    """`module.parameters()`, perhaps in `list(...)`."""
    if isinstance(node, ast.Call) and python_ast.called_name(node) == "list" and len(node.args) == 1:
        return _parameters_of(node.args[0])
    is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args
    is_parameters = is_call and isinstance(node, ast.Call) and python_ast.called_name(node) == "parameters"
    return node if is_parameters and isinstance(node, ast.Call) and not node.keywords else None


def _are_exchanged(one: _Optimizer, other: _Optimizer) -> bool:
    is_crossed = one.is_after(other.held) and other.is_after(one.held)
    return is_crossed and not one.is_after(one.held) and not other.is_after(other.held)


def _held(node: ast.expr) -> str:
    """The network whose parameters an expression gives: `net.parameters()`, or an attribute `net_params`."""
    taken = _parameters_of(node)
    if taken is not None:
        return _owner(taken)
    name = python_ast.dotted(node) if isinstance(node, (ast.Name, ast.Attribute)) else ""
    return next((name.removesuffix(suffix) for suffix in _SUFFIXES if name.endswith(suffix)), "")


def _step_apart(one: str, other: str, known: definitions.Definitions) -> bool:
    """Whether each optimizer steps, and a backward pass lies between any two of their steps in the text."""
    calls = list(known.tree.of_type(ast.Call))
    backwards = [call.lineno for call in calls if python_ast.called_name(call) == "backward"]
    names = (f"{one}.step", f"{other}.step")
    lines = [[call.lineno for call in calls if python_ast.dotted(call.func) == name] for name in names]
    pairs = [sorted((first, second)) for first in lines[0] for second in lines[1]]
    return bool(pairs) and all(any(first < line < second for line in backwards) for first, second in pairs)


def _owner(call: ast.Call) -> str:
    """The name of the module whose `parameters()` a call asks for."""
    return python_ast.dotted(call.func).removesuffix(".parameters")
