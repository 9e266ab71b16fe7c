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
    """Clears the gradients of a parameter's value."""

    gradients_of: str


class GoesBackward(NamedTuple):
    """Runs a backward pass through a parameter's value, which adds to gradients."""

    through: str


class TakesGradients(NamedTuple):
    """Returns the gradients of a parameter's value, without adding them anywhere."""

    of: str


class Steps(NamedTuple):
    """An optimizer updates its parameters."""

    optimizer: str


class Clips(NamedTuple):
    """Scales gradients down to stay within a bound."""

    gradients_of: str
    bound: str


class Unscales(NamedTuple):
    """Divides the gradients of an optimizer by the scale of its scaler."""

    optimizer: str


class AdjustsRates(NamedTuple):
    """A scheduler advances, and sets the learning rates of its optimizer."""

    scheduler: str


class Keeps(NamedTuple):
    """A container, or the result, stores a parameter's value."""

    value: str


class EvaluatesModule(NamedTuple):
    """Switches a module to evaluation; gradients stay on."""

    module: str


class TrainsModule(NamedTuple):
    """Switches a module to training, or to evaluation if the parameter `mode` is false."""

    module: str
    mode: str


class RegistersHook(NamedTuple):
    """A module calls the hook from now on, until the returned handle removes it."""

    hook: str


class SwitchesGradMode(NamedTuple):
    """Sets the grad mode: to `to`, or to the parameter `mode`; as a statement if `at_once`."""

    to: GradMode | None
    at_once: bool = False


class DropsElements(NamedTuple):
    """Sets elements to zero at random, unless the parameter `mode`, which is True by default, is False."""

    mode: str


class FreesCache(NamedTuple):
    """The allocator returns its unused memory."""


class ProbesMemory(NamedTuple):
    """Reads the memory in use, or (`resets`) resets its peak."""

    resets: bool = False


class DetectsAnomaly(NamedTuple):
    """Checks each backward pass from now on, if the parameter `mode` says so, or (without one) inside a block."""

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
"""Effects that name parameters, including `self`."""


class Result(Enum):
    """The result of a call."""

    NOTHING = auto()
    PLAIN = auto()
    """No tensor, or one without a graph that matters."""
    SAME = auto()
    """The first argument."""
    DETACHED = auto()
    """The first argument without its graph, or with `requires_grad=True` a new leaf."""
    SAME_EACH = auto()
    """Each positional argument."""
    SCALED = auto()
    """The first argument, scaled up."""
    COPY = auto()
    LEAF = auto()
    OPERATOR = auto()
    """The result of an operator, as the table of derivatives describes it."""
    OBJECT = auto()
    """An object about which nothing else is known."""
    GRADIENTS = auto()
    CONTEXT = auto()
    OPTIMIZER = auto()
    SCHEDULER = auto()
    SCALER = auto()
    ENGINE = auto()
    ENGINE_AND_OTHERS = auto()
    """A tuple whose first element is an engine."""
    LOADER = auto()
    DISTRIBUTION = auto()
