"""Positions in the program, and the states that meet after them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from torchlint.model.definitions import FunctionInfo
from torchlint.model.events import Branch, Loop, Path, Try
from torchlint.model.heap import AS_MADE, BackEdge
from torchlint.model.values import Phi, Value
from torchlint.pytorch.effects import GradMode
from torchlint.syntax.python_ast import Site

Place = TypeVar("Place", str, tuple[Value, str])


class Snapshot:
    """The state that differs between the arms of a branch."""

    __slots__ = ("alive", "arm", "contents", "heap", "locals", "mode")

    def __init__(
        self,
        names: dict[str, Value],
        heap: dict[tuple[Value, str], Value],
        contents: dict[Value, Value],
        mode: GradMode,
        alive: bool,
        arm: tuple[object, int] | None = None,
    ) -> None:
        self.locals = names
        self.heap = heap
        self.contents = contents
        self.mode = mode
        self.alive = alive
        self.arm = arm
        """The arm of a branch at whose end the state was taken."""


def changed(before: Snapshot, after: Snapshot) -> BackEdge:
    """The places whose value differs between a state and an earlier one."""
    contents = {item: (before.contents.get(item, AS_MADE), value) for item, value in after.contents.items()}
    return BackEdge(
        _changes(before.locals, after.locals),
        _changes(before.heap, after.heap),
        {item: pair for item, pair in contents.items() if pair[0] is not pair[1]},
    )


def _changes(before: dict[Place, Value], after: dict[Place, Value]) -> dict[Place, tuple[Value | None, Value | None]]:
    if before == after:  # values are equal only to themselves
        return {}
    found: dict[Place, tuple[Value | None, Value | None]] = {
        place: (before.get(place), value) for place, value in after.items() if before.get(place) is not value
    }
    return found | {place: (value, None) for place, value in before.items() if place not in after}


class LoopScope:
    """A loop during its interpretation: its Phis, and the states that leave its body early."""

    def __init__(self, event: Loop, blocks: int, repeats: bool) -> None:
        self.event = event
        self.blocks = blocks
        """The number of open `with` blocks around it."""
        self.repeats = repeats
        """Whether a second iteration is possible; otherwise its events happen once, in no loop."""
        self.name_phis: dict[str, Phi] = {}
        self.heap_phis: dict[tuple[Value, str], Phi] = {}
        self.elements: list[tuple[Phi, Phi, Callable[[Value], Value]]] = []
        """Elements read from one of the Phis, each with the Phi and the kind of read; resolved at the loop's end."""
        self.ends: list[Snapshot] = []
        self.breaks: list[Snapshot] = []


class Position(NamedTuple):
    """A position in the program. Positions are immutable: moving gives a new one."""

    path: Path = ()
    """The arms of branches around it, outermost first."""
    passed: Path = ()
    """The arms before it that leave: by `return`, `raise`, `break` or `continue`."""
    loops: tuple[Loop, ...] = ()
    """The loops around it that repeat it, outermost first."""
    scopes: tuple[LoopScope, ...] = ()
    """All loops around it, including those that end in their first iteration."""
    calls: tuple[Site, ...] = ()
    """The calls through which it is reached, outermost first."""
    call_path: Path = ()
    """The part of `path` outside the current function."""
    functions: tuple[FunctionInfo, ...] = ()
    """The running functions: the root, and those called in place."""
    called_without_grad: tuple[int, int] | None = None
    """The lengths of `path` and `passed` at the outermost running call made with gradients off."""

    def in_arm(self, branch: Branch | Try, number: int) -> Position:
        """The position in an arm of a branch here."""
        return Position((*self.path, (branch, number)), *self[1:])

    def after(self, arms: Path) -> Position:
        """The position after a branch here, some arms of which leave."""
        return self._replace(passed=(*self.passed, *arms)) if arms else self

    def in_loop(self, loop: Loop) -> Position:
        """The position in a loop here."""
        return self._replace(loops=(*self.loops, loop))

    def in_scope(self, scope: LoopScope) -> Position:
        """The position in a loop here that may end in its first iteration."""
        here = self.in_loop(scope.event) if scope.repeats else self
        return here._replace(scopes=(*self.scopes, scope))

    def leaving(self, loop: Loop) -> Position:
        """The position on a path on which a loop, and those in it, reach no other iteration."""
        return self._replace(loops=self.loops[: self.loops.index(loop)])

    def in_function(self, function: FunctionInfo) -> Position:
        """The position in a function, with the same loops and calls around it."""
        return self._replace(functions=(*self.functions, function))

    def in_call(self, site: Site, function: FunctionInfo, mode: GradMode) -> Position:
        """The position in a function called here, in a grad mode."""
        since = self.called_without_grad
        if mode is GradMode.OFF and since is None:
            since = (len(self.path), len(self.passed))
        return self._replace(
            calls=(*self.calls, site),
            call_path=self.path,
            functions=(*self.functions, function),
            called_without_grad=since,
        )
