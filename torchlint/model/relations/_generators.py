"""Random generators that a dataset stores directly or in its transforms and other objects."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from torchlint.model import values
from torchlint.model.program import Program
from torchlint.pytorch import randomness

_MOST_OBJECTS = 40


def held_by(
    dataset: values.Value, attributes: Mapping[values.Value, Mapping[str, values.Value]], program: Program
) -> Iterator[tuple[values.Value, str, ast.Call]]:
    """The generators that a dataset holds, each with its owner, its attribute name and the call that creates it."""
    stack, seen = [dataset], set[values.Value]()
    while stack and len(seen) < _MOST_OBJECTS:
        owner = stack.pop()
        if owner in seen:
            continue
        seen.add(owner)
        known = attributes.get(owner, {})
        if not known and isinstance(owner, values.Module) and owner.info is not None:
            known = program.attributes_of(owner.info)
        for name, value in known.items():
            made = _made(value, program)
            if made is not None:
                yield owner, name, made
            stack.append(value)
        if isinstance(owner, (values.Container, values.Unknown, values.Phi)):
            stack += owner.elements() if isinstance(owner, values.Container) else owner.parents


def _made(value: values.Value, program: Program) -> ast.Call | None:
    """The call that creates a random generator."""
    node = program.tree.node(value.site)
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "manual_seed":
        node = node.func.value  # `torch.Generator().manual_seed(1)`
    if not isinstance(node, ast.Call):
        return None
    return node if program.definitions_of(node).named(node.func) in randomness.GENERATORS else None
