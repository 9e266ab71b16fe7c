"""Functions of torch that call the probe first, and how they stay out of compiled graphs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torch.compiler import is_compiling
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

if TYPE_CHECKING:
    from torchlint_probe.probe import Probe


class Hook:
    """Wraps a function of torch; a subclass defines `__call__`."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe

    @property
    def trouble_of(self) -> Probe:
        return self._probe


class Hooks:
    """All replaced functions, and the hooks around the steps of optimizers."""

    def __init__(self) -> None:
        self._replaced: list[tuple[Any, str, Any]] = []
        self._around_steps: list[tuple[Any, Any]] = []
        self._handles: list[Any] = []
        self.before_compiling: Callable[[], None] = _nothing
        """Functions that run before the first compilation."""

    def replace(self, owner: Any, name: str, hook: Callable[..., Any]) -> None:
        """Let `owner.name` be a function that calls `hook`, with the original as its first argument."""
        original = getattr(owner, name)

        @functools.wraps(original)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return hook(original, *args, **kwargs)

        setattr(owner, name, wrapper)
        self._replaced.append((owner, name, wrapper))

    def listen(self, owner: Any, name: str, hook: Callable[..., Any]) -> None:
        """The same for a function that compiled code may call: Dynamo and TorchScript see the original only."""
        original = getattr(owner, name)

        @functools.wraps(original)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if is_compiling():
                return original(*args, **kwargs)
            return hook(original, *args, **kwargs)

        for mark, value in (("__original_fn", original), ("__script_if_tracing_wrapper", True)):
            setattr(wrapper, mark, value)  # as `torch.jit.script_if_tracing` leaves a function
        setattr(owner, name, wrapper)

    def listen_to_class(self, owner: Any, name: str, hook: Callable[..., Any]) -> None:
        """The same for a class method; `hook` gets the original, bound to the class, and the class."""
        original = owner.__dict__[name]  # a classmethod of Python or, as `Function.apply` since PyTorch 2.15, of C

        @functools.wraps(getattr(owner, name))
        def wrapper(cls: Any, *args: Any, **kwargs: Any) -> Any:
            bound = original.__get__(None, cls)
            if is_compiling():
                return bound(*args, **kwargs)
            return hook(bound, cls, *args, **kwargs)

        setattr(owner, name, classmethod(wrapper))

    def around_steps(self, before: Callable[..., Any], after: Callable[..., Any]) -> None:
        """Call `before` and `after` each `step` of any optimizer."""
        self._around_steps = [
            (register_optimizer_step_pre_hook, before),
            (register_optimizer_step_post_hook, after),
        ]
        self._handles = [register(hook) for register, hook in self._around_steps]

    def hide_from_dynamo(self, dynamo: Any) -> None:
        """Keep Dynamo from tracing into the hooks, from the first compilation on.

        Importing any optimizer imports Dynamo, and hiding a hook costs more than the hook itself.
        """
        context = getattr(getattr(dynamo, "eval_frame", None), "OptimizeContext", None)
        if context is None:
            self._hide(dynamo)
            return
        original = context.__init__

        @functools.wraps(original)
        def first(*args: Any, **kwargs: Any) -> None:
            context.__init__ = original
            self._hide(dynamo)
            original(*args, **kwargs)

        context.__init__ = first

    def _hide(self, dynamo: Any) -> None:
        """Hide all wrappers from Dynamo. An attribute on them is not enough."""
        self.before_compiling()
        for owner, name, wrapper in self._replaced:
            if getattr(owner, name) is wrapper:  # the program may have replaced it again
                setattr(owner, name, dynamo.disable(wrapper))
        for handle in self._handles:
            handle.remove()
        self._handles = [register(dynamo.disable(hook)) for register, hook in self._around_steps]


def _nothing() -> None:
    """Do nothing."""
