"""What values were made from: by which call, from which operands, in whose storage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from torchlint.model.events import Path
from torchlint.model.values import (
    Attribute,
    CallResult,
    Container,
    Element,
    ModuleOutput,
    ModuleParameter,
    Phi,
    Tensor,
    Unknown,
    UnknownObject,
    Value,
    resolved,
)
from torchlint.pytorch.effects import GradMode
from torchlint.pytorch.operators import DATA, DETACH, TO

_CUT_VIEWS = frozenset({DATA, DETACH})
_MOST_INSIDE = 64
_RESULTS = (CallResult, UnknownObject)
_PARTS = (Attribute, Element)


def result_of_call(value: Value) -> Unknown | None:
    """The call whose result a value is, or is a part of."""
    value = whole_of(value)
    return value if isinstance(value, _RESULTS) else None


def whole_of(value: Value) -> Value:
    """What a value is an element or attribute of, however deep."""
    while isinstance(value, _PARTS) and value.parents:
        value = value.parents[0]
    return value


def attached(value: Value) -> Value:
    """The tensor that `x.data` and `x.detach()` are of."""
    while isinstance(value, Tensor) and value.op in _CUT_VIEWS and value.base is not None:
        value = resolved(value.base)
    return value


def graph_inputs(value: Tensor) -> tuple[Value, ...]:
    """The operands that an operator's graph goes on into: `x.type_as(y)` takes no gradient from y, and the module that
    has a parameter is not in its graph."""
    if isinstance(value, ModuleParameter):
        return ()
    return value.parents[:1] if value.op == TO or value.op.endswith("_as") else value.parents


def held_at(container: Container, user: Value) -> list[Value]:
    """What a container may have held when an operator or call was given it: not what was made later, but for what an
    iteration before has left in it."""

    def may_be_in(item: Value) -> bool:
        repeated = set(item.loops).intersection(user.loops).difference(container.loops)
        return item.order <= user.order or bool(repeated)

    return [item for item in container.elements() if may_be_in(item)]


def opened(parts: Iterable[Value], user: Value, given: set[Value]) -> Iterator[Value]:
    """What an operator or call is handed; of a container, which goes to `given`, what it may have held then."""
    for part in parts:
        if isinstance(part, Container):
            given.add(part)
            yield from held_at(part, user)
        else:
            yield part


def made_of(value: Value) -> Iterable[Value]:
    """What a value was made from at once: its operands, or what is in it."""
    return value.elements() if isinstance(value, Container) else value.parents


def ancestry(values: Iterable[Value], through: Callable[[Value], Iterable[Value]] = made_of) -> set[Value]:
    """Values and all that they were made from, detached or not; `through` says of each what it comes from."""
    found: set[Value] = set()
    stack = list(values)
    while stack:
        value = stack.pop()
        if value not in found:
            found.add(value)
            stack.extend(through(value))
    return found


def with_owners(value: Value) -> list[Value]:
    """A value, what it is an attribute of, and what that is: an optimizer may hold the one that does the work."""
    found: list[Value] = []
    while value not in found:  # `node = node.next` is an attribute of itself
        found.append(value)
        if isinstance(value, Attribute) and value.parents:
            value = resolved(value.parents[0])
    return found


def storages(
    value: Value,
    path: Path = (),
    *,
    carried: bool = True,
    left: Callable[[Phi], bool] = lambda phi: False,
) -> set[Value]:
    """The values whose storage a value may share, itself included, down to where it was made.

    With a `path`, only those that it has where that path was taken; with `carried`, also those that it has from earlier
    iterations of a loop. Of a Phi that is `left`, none: it is that of a particular iteration.
    """
    taken = dict(path)
    found: set[Value] = set()
    stack = [value]
    while stack:
        item = stack.pop()
        if item in found:
            continue
        found.add(item)
        if isinstance(item, Tensor) and item.base is not None:
            stack.append(item.base)
        elif isinstance(item, Phi) and item.is_loop and not carried:
            stack.extend(item.parents[:1])
        elif isinstance(item, Phi) and not left(item):
            stack.extend(part for part in after_loops(item) if _possible(item.arms.get(part), taken))
    return found


def computed_inside(value: Value) -> Iterator[Tensor]:
    """What the `forward` of a module of the program computes for its output, with a graph."""
    body = value.body if isinstance(value, ModuleOutput) else None
    stack, seen = [body] if body is not None else [], set[Value]()
    while stack and len(seen) < _MOST_INSIDE:
        item = resolved(stack.pop())
        if item not in seen and isinstance(item, (Tensor, Container, Phi)):
            seen.add(item)
            stack.extend(item.elements() if isinstance(item, Container) else item.parents)
            if isinstance(item, Tensor) and item.mode is not GradMode.OFF:
                yield item


def after_loops(phi: Phi) -> list[Value]:
    """What a value may be; where one is behind a loop, that loop has run."""
    ends = phi.parents
    return [item for item in ends if not (isinstance(item, Phi) and item.is_loop and set(item.parents[1:]) & set(ends))]


def left_by_iterations(carried: Phi) -> Iterator[Value]:
    """What the iterations of a loop may leave of a value, and where branches meet in that: not what it was before."""
    seen: set[Value] = {carried}
    stack = list(carried.parents[1:])
    while stack:
        item = stack.pop()
        if item not in seen:
            seen.add(item)
            stack += item.parents if isinstance(item, Phi) else ()
            yield item


def _possible(arms: set[tuple[object, int]] | None, taken: dict[object, int]) -> bool:
    """Whether an input of a Phi can be the one when these arms were taken."""
    if not arms:
        return True
    return any(taken.get(branch, number) == number for branch, number in arms)
