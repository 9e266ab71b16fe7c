"""Effects of calls on gradients, graphs, modes and memory, and their possible results."""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple


class GradMode(Enum):
    """Whether operators record a graph at a point of the program."""

    ON = "on"
    OFF = "off"
    UNKNOWN = "unknown"


class Clears(NamedTuple):
    """The gradients of a parameter's value are cleared."""

    gradients_of: str


class GoesBackward(NamedTuple):
    """A backward pass through a parameter's value adds to gradients."""

    through: str


class TakesGradients(NamedTuple):
    """Gradients of a parameter's value are returned, and added to nothing."""

    of: str


class Steps(NamedTuple):
    """An optimizer updates what it holds."""

    optimizer: str


class Clips(NamedTuple):
    """Gradients are made smaller, so that they stay within a bound."""

    gradients_of: str
    bound: str


class Unscales(NamedTuple):
    """The gradients of an optimizer are divided by the scale of its scaler."""

    optimizer: str


class AdjustsRates(NamedTuple):
    """A scheduler moves on, and sets the learning rates of its optimizer."""

    scheduler: str


class Keeps(NamedTuple):
    """A container, or the result, holds on to a parameter's value."""

    value: str


class EvaluatesModule(NamedTuple):
    """A module is switched to evaluation, which leaves gradients on."""

    module: str


class TrainsModule(NamedTuple):
    """A module is switched to training, or to evaluation where the parameter `mode` is false."""

    module: str
    mode: str


class RegistersHook(NamedTuple):
    """A module calls the hook from now on, until the handle that is returned removes it."""

    hook: str


class SwitchesGradMode(NamedTuple):
    """Gradients are switched: to `to`, or to what the parameter `mode` says; as a statement if `at_once`."""

    to: GradMode | None
    at_once: bool = False


class DropsElements(NamedTuple):
    """Elements are set to zero at random, unless the parameter `mode`, which is True by default, is False."""

    mode: str


class FreesCache(NamedTuple):
    """The allocator gives its unused memory back."""


class ProbesMemory(NamedTuple):
    """The memory that is in use is read, or (`resets`) its peak is forgotten."""

    resets: bool = False


class DetectsAnomaly(NamedTuple):
    """Each backward pass is checked from now on, if the parameter `mode` says so, or (without one) inside a block."""

    mode: str | None = None


Effect = (
    Clears
    | GoesBackward
    | TakesGradients
    | Steps
    | Clips
    | Unscales
    | AdjustsRates
    | Keeps
    | EvaluatesModule
    | TrainsModule
    | RegistersHook
    | SwitchesGradMode
    | DropsElements
    | FreesCache
    | ProbesMemory
    | DetectsAnomaly
)
"""Effects that name parameters, `self` among them."""


class Result(Enum):
    """The result of a call."""

    NOTHING = auto()
    PLAIN = auto()
    """No tensor, or one without a graph that nobody uses."""
    SAME = auto()
    """The first argument."""
    DETACHED = auto()
    """The first argument without its graph, or with `requires_grad=True` a new leaf."""
    SAME_EACH = auto()
    """The arguments that it takes by position, each of them."""
    SCALED = auto()
    """The first argument, larger."""
    COPY = auto()
    LEAF = auto()
    OPERATOR = auto()
    """The result of an operator, as the table of derivatives describes it."""
    OBJECT = auto()
    """An object of which nothing else is known."""
    GRADIENTS = auto()
    CONTEXT = auto()
    OPTIMIZER = auto()
    SCHEDULER = auto()
    SCALER = auto()
    ENGINE = auto()
    ENGINE_AND_OTHERS = auto()
    """An engine, first of several."""
    LOADER = auto()
    DISTRIBUTION = auto()
