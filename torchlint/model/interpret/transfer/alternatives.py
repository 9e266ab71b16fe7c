"""Calls of one of several possible callees."""

from __future__ import annotations

import ast

from torchlint.model.arguments import Arguments
from torchlint.model.events import Branch
from torchlint.model.interpret.machine import Part
from torchlint.model.values import Phi, Value, meanings
from torchlint.syntax.python_ast import site_of

MAX_CALLEES = 8
"""Maximum number of alternatives of a call to follow."""


class Alternatives(Part):
    """Calls each of several possible callees, like the arms of a branch."""

    def call(self, callees: list[Value], arguments: Arguments, node: ast.Call) -> Value:
        """Call one callee or another: alternatives, like the arms of an `if`."""
        branch = Branch(site_of(node), [[] for _ in callees])
        results: list[Value] = []
        for number, callee in enumerate(callees):
            with self.state.arm(branch, number):
                results.append(self.machine.call(callee, arguments, node))
        self.state.items.append(branch)
        return self.state.phi(node, results, [(branch, number) for number in range(len(results))])


def alternatives(value: Phi) -> list[Value]:
    """The possible values, without None; empty if there are too many to follow."""
    found = list(meanings(value))
    return found if len(found) <= MAX_CALLEES else []
