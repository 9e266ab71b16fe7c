"""Short lists whose items are interpreted one by one."""

from __future__ import annotations

from collections.abc import Sequence

from torchlint.model.values import Container, Dict, Function, Instance, List, Tuple, Value, resolved

MAX_OBJECTS = 8
"""Maximum number of objects in a list for which the loop's body is interpreted one by one."""


def objects_in(iterable: Value, *, of_entries: bool = False) -> Sequence[Value]:
    """The program's own objects and functions in a list, such as callbacks, in order.

    For a loop over a dictionary, its entries. Empty if there are other values, or too many.
    """
    iterable = resolved(iterable)
    if not isinstance(iterable, Container) or iterable.unsure:
        return []
    if not isinstance(iterable, (List, Tuple)) and not (of_entries and isinstance(iterable, Dict)):
        return []
    objects = [resolved(item) for item in iterable.elements()]
    is_few = len(objects) <= MAX_OBJECTS and all(isinstance(item, (Function, Instance)) for item in objects)
    return objects if is_few else []


def few_in(iterable: Value) -> Sequence[Value]:
    """The items a list surely holds, in order; empty if it may hold others, or many."""
    iterable = resolved(iterable)
    if not isinstance(iterable, (List, Tuple)) or iterable.grown:
        return []
    is_known = 0 < len(iterable.parents) <= MAX_OBJECTS and not iterable.known_parts
    return [resolved(item) for item in iterable.parents] if is_known else []
