"""What calling something can do to gradients, graphs, modes and memory, and what it can return."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto


class GradMode(Enum):
    """Whether operators record a graph at a point of the program."""

    ON = "on"
    OFF = "off"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Effect:
    """Base of all effects; what they name are parameters, `self` among them."""


@dataclass(frozen=True)
class Clears(Effect):
    """The gradients of a parameter's value are cleared."""

    gradients_of: str


@dataclass(frozen=True)
class GoesBackward(Effect):
    """A backward pass through a parameter's value adds to gradients."""

    through: str


@dataclass(frozen=True)
class TakesGradients(Effect):
    """Gradients of a parameter's value are returned, and added to nothing."""

    of: str


@dataclass(frozen=True)
class Steps(Effect):
    """An optimizer updates what it holds."""

    optimizer: str


@dataclass(frozen=True)
class Clips(Effect):
    """Gradients are made smaller, so that they stay within a bound."""

    gradients_of: str
    bound: str


@dataclass(frozen=True)
class Unscales(Effect):
    """The gradients of an optimizer are divided by the scale of its scaler."""

    optimizer: str


@dataclass(frozen=True)
class AdjustsRates(Effect):
    """A scheduler moves on, and sets the learning rates of its optimizer."""

    scheduler: str


@dataclass(frozen=True)
class Keeps(Effect):
    """A container, or the result, holds on to a parameter's value."""

    value: str


@dataclass(frozen=True)
class EvaluatesModule(Effect):
    """A module is switched to evaluation, which leaves gradients on."""

    module: str


@dataclass(frozen=True)
class TrainsModule(Effect):
    """A module is switched to training, or to evaluation where the parameter `mode` is false."""

    module: str
    mode: str


@dataclass(frozen=True)
class RegistersHook(Effect):
    """A module calls the hook from now on, until the handle that is returned removes it."""

    hook: str


@dataclass(frozen=True)
class SwitchesGradMode(Effect):
    """Gradients are switched: to `to`, or to what the parameter `mode` says; as a statement if `at_once`."""

    to: GradMode | None
    at_once: bool = False


@dataclass(frozen=True)
class DropsElements(Effect):
    """Elements are set to zero at random, unless the parameter `mode`, which is True by default, is False."""

    mode: str


@dataclass(frozen=True)
class FreesCache(Effect):
    """The allocator gives its unused memory back."""


@dataclass(frozen=True)
class ProbesMemory(Effect):
    """The memory that is in use is read, or (`resets`) its peak is forgotten."""

    resets: bool = False


@dataclass(frozen=True)
class DetectsAnomaly(Effect):
    """Each backward pass is checked from now on, if the parameter `mode` says so, or (without one) inside a block."""

    mode: str | None = None


class Result(Enum):
    """What a call returns."""

    NOTHING = auto()
    PLAIN = auto()
    """No tensor, or one without a graph that nobody uses."""
    SAME = auto()
    """The first argument."""
    SAME_EACH = auto()
    """The arguments that it takes by position, each of them."""
    SCALED = auto()
    """The first argument, larger."""
    COPY = auto()
    LEAF = auto()
    OPERATOR = auto()
    """What the table of derivatives says: the result of an operator."""
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
