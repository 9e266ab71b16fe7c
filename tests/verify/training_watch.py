"""An observer inside a training run: the gradients that steps use, the modes of networks, the graphs that stay."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import Optimizer, register_optimizer_step_pre_hook

MAX_PASSES = 100
"""Backward passes of one program, after which it has shown enough."""
MODAL = (nn.Dropout, nn.BatchNorm1d)
"""Layers that do something else in evaluation."""


class Enough(BaseException):
    """Ends a program that goes on for long; no `except Exception` of its own catches it."""


@dataclass
class Gradient:
    """The passes that have given a parameter the gradient that it has."""

    passes: list[int] = field(default_factory=list)
    used: bool = False
    good: bool = True
    """Whether a step may use it: it is finite, and no pass was cut short."""


@dataclass
class Watch:
    """The observations of one run; `problems` has a line for each problem."""

    problems: list[str] = field(default_factory=list)
    windows: list[int] = field(default_factory=list)
    """How many passes each step had gradients of."""
    norms: list[float] = field(default_factory=list)
    """The size of the gradients that each step took."""
    _optimizers: list[Optimizer] = field(default_factory=list)
    _gradients: dict[Tensor, Gradient] = field(default_factory=dict)
    _modes: list[bool] = field(default_factory=list)
    _backwards: int = 0

    def _parameters(self, optimizers: list[Optimizer] | None = None) -> list[Tensor]:
        chosen = self._optimizers if optimizers is None else optimizers
        return [parameter for item in chosen for group in item.param_groups for parameter in group["params"]]

    # -- backward passes ----------------------------------------------------------------------------------

    def before_backward(self) -> None:
        """See what has been cleared, and what the pass will add to."""
        self._backwards += 1
        if self._backwards > MAX_PASSES:
            raise Enough
        for parameter in self._parameters():
            known = self._gradients.setdefault(parameter, Gradient())
            if parameter.grad is None or not parameter.grad.any():
                if known.passes and known.good and not known.used:
                    self.problems.append("gradients are lost that no step has used")
                self._gradients[parameter] = Gradient()
            elif not parameter.grad.isfinite().all():
                self.problems.append("a pass adds to gradients that are not finite")

    def after_backward(self, before: dict[Tensor, Tensor | None], *, is_done: bool) -> None:
        """Note which parameters the pass has reached; what it leaves when it raises is of no use."""
        for parameter, old in before.items():
            new = parameter.grad
            if new is not None and (old is None or not torch.equal(old, new)):
                known = self._gradients[parameter]
                known.passes.append(self._backwards)
                known.good = is_done and bool(new.isfinite().all())

    def gradients(self) -> dict[Tensor, Tensor | None]:
        """Copies of all gradients."""
        return {item: None if item.grad is None else item.grad.clone() for item in self._parameters()}

    # -- steps --------------------------------------------------------------------------------------------

    def step(self, optimizer: Optimizer) -> None:
        """Look at what a step is about to use."""
        own = [parameter for parameter in self._parameters([optimizer]) if parameter.grad is not None]
        known = [self._gradients.setdefault(parameter, Gradient()) for parameter in own]
        if any(item.used and item.passes for item in known):
            self.problems.append("a step uses gradients that an earlier step has used")
        for item in known:
            item.used = True
        if any(parameter.grad is not None and not parameter.grad.isfinite().all() for parameter in own):
            self.problems.append("a step uses gradients that are not finite")
        self.windows.append(len({number for item in known for number in item.passes}))
        self.norms.append(float(torch.stack([p.grad.norm() for p in own if p.grad is not None]).norm()) if own else 0.0)
        if False in self._modes:
            self.problems.append("a step was computed in evaluation mode")
        self._modes.clear()

    # -- modules ------------------------------------------------------------------------------------------

    def forward(self, module: nn.Module) -> None:
        """Note the mode of a layer that runs for a step; without gradients it must be in evaluation."""
        if not isinstance(module, MODAL):
            return
        if torch.is_grad_enabled():
            self._modes.append(module.training)
        elif module.training:
            self.problems.append("an evaluation runs in training mode")


@contextmanager
def watched() -> Iterator[Watch]:
    """Watch all training in this block."""
    seen = Watch()
    make, go_backward = Optimizer.__init__, Tensor.backward

    def made(self: Optimizer, *arguments: Any, **keywords: Any) -> None:
        make(self, *arguments, **keywords)
        seen._optimizers.append(self)

    def backward(self: Tensor, *arguments: Any, **keywords: Any) -> None:
        seen.before_backward()
        before, is_done = seen.gradients(), False
        try:
            go_backward(self, *arguments, **keywords)
            is_done = True
        finally:
            seen.after_backward(before, is_done=is_done)

    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(Optimizer, "__init__", made))
        stack.enter_context(mock.patch.object(Tensor, "backward", backward))
        hook = register_module_forward_pre_hook(lambda module, inputs: seen.forward(module))
        stack.callback(hook.remove)
        steps = register_optimizer_step_pre_hook(lambda item, args, kwargs: seen.step(item))
        stack.callback(steps.remove)
        yield seen


@contextmanager
def counted_graphs(counts: list[int]) -> Iterator[None]:
    """Add how many nodes the graphs have that tensors of this block hold behind it.

    What is there before is kept from the garbage collector until `gc.unfreeze()`, since going through it takes long.
    """
    gc.collect()
    gc.freeze()
    yield
    gc.collect()
    alive = [item for item in gc.get_objects() if issubclass(type(item), Tensor)]
    nodes, stack = set[Any](), [item.grad_fn for item in alive]
    while stack:
        node = stack.pop()
        if node is not None and node not in nodes:
            nodes.add(node)
            stack.extend(following for following, _ in node.next_functions)
    counts.append(len(nodes))
