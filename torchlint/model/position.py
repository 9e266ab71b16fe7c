"""Where in the program something happens, and the states that meet behind it."""

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
    """What differs between the arms of a branch."""

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
    """The places that hold something else in one state than in another before it."""
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
    """A loop that is being interpreted: its Phis, and the states that leave its body early."""

    def __init__(self, event: Loop, blocks: int, repeats: bool) -> None:
        self.event = event
        self.blocks = blocks
        """How many `with` blocks were open around it."""
        self.repeats = repeats
        """Whether there can be a second iteration; else what is in the loop happens once, in no loop."""
        self.name_phis: dict[str, Phi] = {}
        self.heap_phis: dict[tuple[Value, str], Phi] = {}
        self.elements: list[tuple[Phi, Phi, Callable[[Value], Value]]] = []
        """Elements that were read of one of the Phis, each with that and with how it is read: known at the end."""
        self.ends: list[Snapshot] = []
        self.breaks: list[Snapshot] = []


class Position(NamedTuple):
    """Where in the program something happens. A position never changes: going elsewhere is another."""

    path: Path = ()
    """The arms of branches that it stands in, outermost first."""
    passed: Path = ()
    """The arms that it comes after, and that leave: by `return`, `raise`, `break` or `continue`."""
    loops: tuple[Loop, ...] = ()
    """The loops that it repeats with, outermost first."""
    scopes: tuple[LoopScope, ...] = ()
    """All loops around it, those included that end in their first iteration."""
    calls: tuple[Site, ...] = ()
    """The calls through which it is reached, outermost first."""
    call_path: Path = ()
    """The part of `path` that lies outside the function it stands in."""
    functions: tuple[FunctionInfo, ...] = ()
    """The functions under way: the one that interpretation began with, and those that are called in place."""
    called_without_grad: tuple[int, int] | None = None
    """How long `path` and `passed` were at the outermost call under way that was made with gradients off."""

    def in_arm(self, branch: Branch | Try, number: int) -> Position:
        """In an arm of a branch that stands here."""
        return Position((*self.path, (branch, number)), *self[1:])

    def after(self, arms: Path) -> Position:
        """Behind a branch that stands here, some arms of which leave."""
        return self._replace(passed=(*self.passed, *arms)) if arms else self

    def in_loop(self, loop: Loop) -> Position:
        """In a loop that stands here."""
        return self._replace(loops=(*self.loops, loop))

    def in_scope(self, scope: LoopScope) -> Position:
        """In a loop that stands here and may end in its first iteration."""
        here = self.in_loop(scope.event) if scope.repeats else self
        return here._replace(scopes=(*self.scopes, scope))

    def leaving(self, loop: Loop) -> Position:
        """Where a loop, and those in it, will not come to another iteration."""
        return self._replace(loops=self.loops[: self.loops.index(loop)])

    def in_function(self, function: FunctionInfo) -> Position:
        """In a function, with the same loops and calls around it."""
        return self._replace(functions=(*self.functions, function))

    def in_call(self, site: Site, function: FunctionInfo, mode: GradMode) -> Position:
        """In a function that is called here, in a grad mode."""
        since = self.called_without_grad
        if mode is GradMode.OFF and since is None:
            since = (len(self.path), len(self.passed))
        return self._replace(
            calls=(*self.calls, site),
            call_path=self.path,
            functions=(*self.functions, function),
            called_without_grad=since,
        )
