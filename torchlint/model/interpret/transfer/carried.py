"""Values that loops carry from iteration to iteration."""

from __future__ import annotations

import ast

from torchlint.model.interpret.machine import Machine
from torchlint.model.values import Phi, Value, resolved


def as_carried(machine: Machine, receiver: Value, node: ast.Call) -> Value:
    """The receiver of a method as the loop around carries it: the end of an iteration may assign another one."""
    owner, found = node.func.value if isinstance(node.func, ast.Attribute) else None, None
    if isinstance(owner, ast.Name):
        found = machine.read(owner.id)
    elif isinstance(owner, ast.Attribute):
        found = machine.state.heap.get((resolved(machine.value(owner.value)), owner.attr))
    return found if isinstance(found, Phi) and resolved(found) is receiver else receiver
