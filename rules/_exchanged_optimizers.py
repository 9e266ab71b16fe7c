"""Two optimizers that each get the parameters of the network that the other is named after."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from itertools import permutations
from typing import TYPE_CHECKING, NamedTuple

from torchlint.model import definitions
from torchlint.syntax import python_ast

from ._misnamed_optimizers import is_named_after, words_of
from ._repeated_parameters import given_to, module_of, parameters_of

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

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


class _Optimizer(NamedTuple):
    name: str
    given: ast.expr
    held: str
    scope: object

    def is_after(self, network: str) -> bool:
        """Whether its name means a network, under one of the names of such networks."""
        words = words_of(network)
        return is_named_after(words_of(self.name), words.union(*(_ALSO.get(word, ()) for word in words)))


def exchanged(known: definitions.Definitions) -> Iterator[Exchanged]:
    """Pairs of optimizers of a function with exchanged parameters, whose steps use different backward passes."""
    made: dict[object, list[_Optimizer]] = defaultdict(list)
    for statement in known.tree.of_type(ast.Assign):
        found = _optimizer(statement, known)
        if found is not None:
            made[found.scope].append(found)
    done: set[str] = set()
    for same in made.values():
        for one, other in permutations(same, 2):
            if one.name not in done and _are_exchanged(one, other) and _step_apart(one.name, other.name, known):
                done |= {one.name, other.name}
                there = python_ast.site_of(other.given)
                yield Exchanged(python_ast.site_of(one.given), one.name, one.held, other.name, there)


def _are_exchanged(one: _Optimizer, other: _Optimizer) -> bool:
    is_crossed = one.is_after(other.held) and other.is_after(one.held)
    return is_crossed and not one.is_after(one.held) and not other.is_after(other.held)


def _optimizer(statement: ast.Assign, known: definitions.Definitions) -> _Optimizer | None:
    call, name = statement.value, python_ast.dotted(statement.targets[0])
    if len(statement.targets) > 1 or not isinstance(call, ast.Call) or not name or not words_of(name):
        return None
    if not (known.named(call.func) or "").startswith("torch.optim."):
        return None
    given = given_to(call)
    held = _held(given) if given is not None else ""
    return _Optimizer(name, given, held, known.function_around(statement)) if given is not None and held else None


def _held(node: ast.expr) -> str:
    """The network whose parameters an expression gives: `net.parameters()`, or an attribute `net_params`."""
    taken = parameters_of(node)
    if taken is not None:
        return module_of(taken)
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
