"""The origin of values: the call that made them, its operands, and the storage they share."""

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
    """The call that a value, or its whole, results from."""
    value = whole_of(value)
    return value if isinstance(value, _RESULTS) else None


def whole_of(value: Value) -> Value:
    """The outermost value that a value is an element or attribute of, at any depth."""
    while isinstance(value, _PARTS) and value.parents:
        value = value.parents[0]
    return value


def attached(value: Value) -> Value:
    """The tensor from which `x.data` and `x.detach()` come."""
    while isinstance(value, Tensor) and value.op in _CUT_VIEWS and value.base is not None:
        value = resolved(value.base)
    return value


def graph_inputs(value: Tensor) -> tuple[Value, ...]:
    """The operands into which an operator's graph continues.

    `x.type_as(y)` takes no gradient from y, and a parameter's module is not in its graph.
    """
    if isinstance(value, ModuleParameter):
        return ()
    return value.parents[:1] if value.op == TO or value.op.endswith("_as") else value.parents


def held_at(container: Container, user: Value) -> list[Value]:
    """The items a container may have held when an operator or call used it.

    Items made later do not count, unless the previous iteration may have left them in it.
    """
    order, again = user.order, set(user.loops).difference(container.loops)
    return [item for item in container.elements() if item.order <= order or not again.isdisjoint(item.loops)]


def contents(parts: Iterable[Value]) -> set[Value]:
    """Values with the values that they may stand for, and the contents of containers among them, at any depth."""
    stack, found = list(parts), set[Value]()
    while stack:
        value = stack.pop()
        if value not in found:
            found.add(value)
            if isinstance(value, (Phi, Container)):
                stack += value.elements() if isinstance(value, Container) else value.parents
    return found


def opened(parts: Iterable[Value], user: Value, given: set[Value]) -> Iterator[Value]:
    """The operands of an operator or call; a container goes to `given` and yields the items it may have held then."""
    for part in parts:
        if isinstance(part, Container):
            given.add(part)
            yield from held_at(part, user)
        else:
            yield part


def made_of(value: Value) -> Iterable[Value]:
    """The direct inputs of a value: its operands, or its contents."""
    return value.elements() if isinstance(value, Container) else value.parents


def ancestry(values: Iterable[Value], through: Callable[[Value], Iterable[Value]] = made_of) -> set[Value]:
    """Values and all their ancestors, detached or not; `through` gives the inputs of each."""
    found: set[Value] = set()
    stack = list(values)
    while stack:
        value = stack.pop()
        if value not in found:
            found.add(value)
            stack.extend(through(value))
    return found


def with_owners(value: Value) -> list[Value]:
    """A value, its owner, and the owner's owners: an optimizer may hold the one that does the work."""
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
    """The values whose storage a value may share, itself included, down to its creation.

    With a `path`, only those possible on that path. With `carried`, also those from earlier iterations of a loop.
    None of a Phi that is `left`: it belongs to a particular iteration.
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
    """The tensors with a graph that the `forward` of the program's module computes for its output."""
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
    """The possible values; if one of them comes after a loop, that loop has run."""
    ends = phi.parents
    return [item for item in ends if not (isinstance(item, Phi) and item.is_loop and set(item.parents[1:]) & set(ends))]


def left_by_iterations(carried: Phi) -> Iterator[Value]:
    """The values that the iterations of a loop may leave in a variable, with the merges of branches in between.

    The value from before the loop is not among them.
    """
    seen: set[Value] = {carried}
    stack = list(carried.parents[1:])
    while stack:
        item = stack.pop()
        if item not in seen:
            seen.add(item)
            stack += item.parents if isinstance(item, Phi) else ()
            yield item


def on_path(value: Value, path: Path) -> Iterator[Value]:
    """The values that a merge of branches may be on a path: the arms that it takes decide."""
    taken, seen, stack = dict(path), set[Value](), [value]
    while stack:
        item = stack.pop()
        if isinstance(item, Phi) and not item.is_loop and item.source is None and item not in seen:
            stack.extend(part for part in item.parents if _possible(item.arms.get(part), taken))
        elif item not in seen:
            yield item
        seen.add(item)


def _possible(arms: set[tuple[object, int]] | None, taken: dict[object, int]) -> bool:
    """Whether an input of a Phi is possible on a path with these arms."""
    if not arms:
        return True
    return any(taken.get(branch, number) == number for branch, number in arms)
