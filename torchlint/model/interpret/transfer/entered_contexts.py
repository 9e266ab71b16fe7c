"""Context managers entered and left by calls."""

from __future__ import annotations

import ast

from torchlint.model.arguments import Arguments, MethodHandler
from torchlint.model.interpret.machine import Machine, Part
from torchlint.model.values import Context, Value, resolved
from torchlint.pytorch.effects import GradMode


class EnteredContexts(Part):
    """Calls methods that enter and leave context managers."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self._entered_from: dict[Value, GradMode] = {}
        """The grad modes to restore for contexts entered by hand."""

    def handlers(self) -> dict[str, MethodHandler]:
        return {
            "enter_context": self._enter_one_more, "__enter__": self._enter_by_hand, "__exit__": self._leave_by_hand,
        }  # fmt: skip

    def _enter_one_more(self, stack: Value, arguments: Arguments, node: ast.Call) -> Value | None:
        """`stack.enter_context(torch.no_grad())`: the block of the stack continues in this mode.

        A context outside any block has an unknown end.
        """
        context = resolved(arguments.positional[0]) if arguments.positional else stack
        if isinstance(context, Context):
            tree, made = self.definitions.tree, self.definitions.tree.own_node(stack.site)
            has_block = made is not None and isinstance(tree.parent(made), ast.withitem)
            self.state.mode = context.mode if has_block else GradMode.UNKNOWN
        return None

    def _enter_by_hand(self, context: Value, arguments: Arguments, node: ast.Call) -> Value | None:
        """`torch.no_grad().__enter__()`: the code continues in this mode, to an unknown end outside any block."""
        if isinstance(context, Context):
            self._entered_from[context] = self.state.mode
            self.state.mode = context.mode if self.state.entered_from else GradMode.UNKNOWN
        return None

    def _leave_by_hand(self, context: Value, arguments: Arguments, node: ast.Call) -> Value | None:
        if isinstance(context, Context):
            self.state.mode = self._entered_from.get(context, GradMode.UNKNOWN)
        return None
