"""What loops carry on from iteration to iteration."""

from __future__ import annotations

import ast

from torchlint.model.interpret.machine import Machine
from torchlint.model.values import Phi, Value, resolved


def as_carried(machine: Machine, receiver: Value, node: ast.Call) -> Value:
    """What a method is called of, as the loop around carries it on: the end of an iteration may give another."""
    owner, found = node.func.value if isinstance(node.func, ast.Attribute) else None, None
    if isinstance(owner, ast.Name):
        found = machine.read(owner.id)
    elif isinstance(owner, ast.Attribute):
        found = machine.state.heap.get((resolved(machine.value(owner.value)), owner.attr))
    return found if isinstance(found, Phi) and resolved(found) is receiver else receiver
