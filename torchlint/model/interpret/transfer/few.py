"""Lists so short that what is in them is taken one by one."""

from __future__ import annotations

from collections.abc import Sequence

from torchlint.model.values import Container, Dict, Function, Instance, List, Tuple, Value, resolved

MAX_OBJECTS = 8
"""Objects in a list for each of which the body of a loop is interpreted."""


def objects_in(iterable: Value, *, of_entries: bool = False) -> Sequence[Value]:
    """The objects and functions of this program's own that a list holds, such as callbacks, in order, or a dictionary
    where a loop goes over its entries; none where there are others, or many."""
    iterable = resolved(iterable)
    if not isinstance(iterable, Container) or iterable.unsure:
        return []
    if not isinstance(iterable, (List, Tuple)) and not (of_entries and isinstance(iterable, Dict)):
        return []
    objects = [resolved(item) for item in iterable.elements()]
    is_few = len(objects) <= MAX_OBJECTS and all(isinstance(item, (Function, Instance)) for item in objects)
    return objects if is_few else []


def few_in(iterable: Value) -> Sequence[Value]:
    """What a list surely holds, in order; none where there may be other things in it, or many."""
    iterable = resolved(iterable)
    if not isinstance(iterable, (List, Tuple)) or iterable.grown:
        return []
    is_known = 0 < len(iterable.parents) <= MAX_OBJECTS and not iterable.known_parts
    return [resolved(item) for item in iterable.parents] if is_known else []
