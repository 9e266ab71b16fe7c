"""Two networks of the program share their memory: loading the weights of one into the other does nothing.

Asks for each `a.load_state_dict(b.state_dict())` of the program, with `a` and `b` written differently, whether the
loaded tensors are the memory of `a` itself. Yes if all of them are. A target or teacher network that shares memory with
the trained network moves with each step. The line is the assignment of `a` if it is in the same file, otherwise the
call.

Source: Mnih et al., "Human-level control through deep reinforcement learning" (2015): a separate target network.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from torchlint_probe.checks._loads import Loads, loads_itself
from torchlint_probe.checks.check import Sighting


class AliasedNetwork(Loads):
    """Compares memory, and the source text of the line."""

    name = "aliased-network"
    code = "TL320"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._asked: set[int] = set()
        self._seen: list[Sighting] = []
        self._right: list[Sighting] = []

    def loading(self, module: torch.nn.Module, state: Mapping[str, Any]) -> None:
        site = self.probe.sites.here()
        if site in self._asked or not site:
            return
        self._asked.add(site)
        if not loads_itself(module, state):
            self._right.append(Sighting(site, "the loaded state has its own memory: there are two networks"))
            return
        file, line = self.probe.sites.stacks[site][0]
        named = _names(self.probe.sites.files[file], line)
        if named is not None:
            target, source, at = named
            place = self.probe.sites.place(file, at) if at else site
            message = f"`{target}` shares the memory of `{source}`: they are one network, and loading does nothing"
            self._seen.append(Sighting(place, message, {}, self.probe.steps))

    def acquittals(self) -> Iterator[Sighting]:
        yield from list(self._right)

    def sightings(self) -> Iterator[Sighting]:
        yield from list(self._seen)


def _names(path: str, line: int) -> tuple[str, str, int] | None:
    """Both networks as the line spells them, and the line that assigns the first one, or 0."""
    try:
        tree = ast.parse("".join(linecache.getlines(path)))
    except (SyntaxError, ValueError, RecursionError):
        return None
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call) or not call.lineno <= line <= (call.end_lineno or 0):
            continue
        given = call.args[0] if len(call.args) == 1 else None
        if _method(call) == "load_state_dict" and isinstance(given, ast.Call) and _method(given) == "state_dict":
            target, source = ast.unparse(_receiver(call)), ast.unparse(_receiver(given))
            return (target, source, _assigned(tree, target)) if target != source else None
    return None


def _method(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def _receiver(call: ast.Call) -> ast.expr:
    assert isinstance(call.func, ast.Attribute)
    return call.func.value


def _assigned(tree: ast.AST, name: str) -> int:
    """The only line that assigns a name; 0 if there are none or more."""
    lines = [
        item.lineno
        for item in ast.walk(tree)
        if isinstance(item, ast.Assign) and any(ast.unparse(target) == name for target in item.targets)
    ]
    return lines[0] if len(lines) == 1 else 0
