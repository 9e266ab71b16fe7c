"""Two networks of the program share their memory: loading the weights of one into the other does nothing.

For each `a.load_state_dict(b.state_dict())` in which `a` and `b` are written differently, the check compares the loaded
tensors with those of `a`. It reports a problem if all of them share memory with `a`. A target or teacher network that
shares memory with the trained network changes with each step. The reported line is the assignment of `a` if it is in
the same file, and otherwise the call.

For each `copy_`, `add_` and `lerp_`, the check also asks whether the call writes a trained parameter into itself. It
reports a problem if every call of a line did so, for at least two parameters. Such a line should update a second
network, but there is only one. A sum with a negative factor is weight decay, and is not reported. The reported line is
the one that gave the network its second name (`teacher = student`), or that gave a parameter the memory of another one
(`p.data = q.data`), if there is exactly one.

Source: Mnih et al., "Human-level control through deep reinforcement learning" (2015): a separate target network.
"""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from torchlint_probe.checks._loads import Loads, loads_itself
from torchlint_probe.checks._names import leaves_of
from torchlint_probe.checks._sources import aliases
from torchlint_probe.checks.check import Operated, Sighting
from torchlint_probe.claim import variables_of

_MOST = 1_000


class AliasedNetwork(Loads):
    """Compares memory, and the source text of the line."""

    name = "aliased-network"
    code = "TL320"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._copies: dict[int, _Copies] = {}
        self._trained: set[int] = set()
        """The memory of parameters that an optimizer is about to change."""
        self._asked: set[int] = set()
        self._shares: dict[int, int] = {}
        """By memory, the line that gave it to a second tensor."""
        self._seen: list[Sighting] = []
        self._right: list[Sighting] = []

    def operators(self) -> Mapping[Any, Operated]:
        copies = dict.fromkeys((torch.Tensor.copy_, torch.Tensor.add_, torch.Tensor.lerp_), self._copied)
        return {**copies, torch.Tensor.data.__set__: self._shared}  # type: ignore[attr-defined]

    def _shared(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        """A tensor has got the memory of another one."""
        if len(args) > 1 and isinstance(args[1], torch.Tensor) and len(self._shares) < _MOST:
            self._shares[args[1].data_ptr()] = self.probe.sites.here()

    def _copied(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        """A tensor was written into another one."""
        source = args[1] if len(args) > 1 else None
        if not isinstance(source, torch.Tensor) or not result.dim():
            return
        if result.requires_grad and (torch.is_grad_enabled() or func is torch.Tensor.copy_):
            return  # it has a graph, or a state is loaded
        if kwargs and kwargs.get("alpha", 1) < 0:
            return  # a weight decay by hand
        site = self.probe.sites.here()
        copies = self._copies.setdefault(site, _Copies())
        if copies.has_right:
            return
        if source.shape != result.shape or source.data_ptr() != result.data_ptr() or not result.data_ptr():
            copies.has_right = True
        elif len(copies.places) < _MOST:
            copies.origin = copies.origin or self._second_name(result)
            copies.places.add(result.data_ptr())

    def _second_name(self, leaf: torch.Tensor) -> int:
        """The only line that gives another name to a network with this parameter; 0 if there are none or more."""
        frame: Any = sys._getframe(1)
        lines = set()
        while frame is not None:
            number = self.probe.sites.file(frame.f_code)
            if number >= 0:
                held = {**frame.f_globals, **variables_of(frame, is_current=False)}
                for line, *names in aliases(self.probe.sites.files[number]):
                    if all(_has(_value(held, name), leaf) for name in names):
                        lines.add((number, line))
            frame = frame.f_back
        return self.probe.sites.place(*lines.pop()) if len(lines) == 1 else 0

    def before_step(self, optimizer: Any) -> None:
        if any(copies.places and not copies.has_right for copies in self._copies.values()):
            self._trained.update(leaf.data_ptr() for leaf in leaves_of(optimizer))

    def _copies_onto_itself(self) -> Iterator[Sighting]:
        """Lines that write trained parameters into themselves."""
        for site, copies in list(self._copies.items()):
            own = copies.places & self._trained
            if site and len(own) > 1 and not copies.has_right:
                message = f"this writes {len(own):,} parameters of a trained network into themselves: there is no copy"
                shares = {place for memory, place in self._shares.items() if memory in own}
                place = shares.pop() if len(shares) == 1 else copies.origin
                yield Sighting(place or site, message, {"parameters": len(own)})

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
        if not self._seen:
            yield from self._copies_onto_itself()


class _Copies:
    """The memory that a line has written into itself."""

    def __init__(self) -> None:
        self.places: set[int] = set()
        self.has_right = False
        """Whether it has written anything into other memory."""
        self.origin = 0
        """The line that gave the network its second name."""


def _value(held: Mapping[str, Any], name: str) -> Any:
    """The value of a name or of an attribute, without running code of the program."""
    first, *rest = name.split(".")
    value = held.get(first)
    for part in rest:
        own = getattr(value, "__dict__", {})
        value = own.get(part, own.get("_modules", {}).get(part))
    return value


def _has(module: Any, leaf: torch.Tensor) -> bool:
    return isinstance(module, torch.nn.Module) and any(
        item.data_ptr() == leaf.data_ptr() for item in module.parameters()
    )


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
