"""inplace-on-saved-tensor, inplace-on-leaf: does the flagged line change a tensor that a backward needs?"""

from __future__ import annotations

import sys
import weakref
from collections import Counter
from types import FrameType
from typing import Any

import torch

from torchlint_probe.claim import Claim, values_of
from torchlint_probe.graphs import nodes
from torchlint_probe.spots import Spot, next_sequence

_HITS = 30
_MOST_HITS = 600
_BACKWARDS = 8
"""The number of observed visits of a line; more if too few backwards followed them."""

_COPIED = 3
"""The number of visits at which the values are compared before and after."""

_COPY_LIMIT = 4_000_000

_MARK = 999_000_000
"""A version that no tensor has by itself: a complaint that names it is about a tensor of the flagged line."""

VERSION_ERROR = "modified by an inplace operation"
LEAF_ERRORS = ("in-place operation", "inplace update to inference tensor", "Inplace update to inference tensor")


class _Passage:
    """Whether a backward has gone through the node of a tensor. All that the node's hook keeps alive."""

    def __init__(self) -> None:
        self.seen = False
        self.is_watched = False

    def watch(self, tensor: torch.Tensor | None) -> None:
        """Register for backwards through the tensor's node, if it has one."""
        if tensor is not None and tensor.grad_fn is not None:
            tensor.grad_fn.register_prehook(self._passed)
            self.is_watched = True

    def _passed(self, gradients: Any) -> None:
        self.seen = True


class _Subject:
    """A tensor that the line may change. `alias` has its storage and version counter, not its graph."""

    __slots__ = ("alias", "bumped", "copy", "is_leaf", "passage", "sequence", "tensor", "version")

    def __init__(self, tensor: torch.Tensor, copied: bool) -> None:
        self.alias = tensor.detach()
        self.tensor = weakref.ref(tensor)
        self.passage = _Passage()
        self.passage.watch(tensor)
        self.version = tensor._version
        self.copy = self.alias.clone() if copied and tensor.numel() <= _COPY_LIMIT else None
        self.sequence = 0 if self.copy is None else next_sequence()
        self.bumped = False
        self.is_leaf = tensor.is_leaf and tensor.requires_grad

    def settle(self) -> tuple[float, Spot | None]:
        """Whether the line changed the tensor; the share of changed elements, and a way to find them in a backward."""
        self.bumped = self.alias._version > self.version
        before, self.copy = self.copy, None
        if before is None or not before.numel():
            return 0.0, None
        changed = float((self.alias != before).float().mean())
        return changed, Spot(self.alias, before, self.sequence) if changed else None


class Change:
    """The observations about one finding."""

    def __init__(self, claim: Claim) -> None:
        self.claim = claim
        self.hits = 0
        self.bumps = 0
        self.tracked = 0
        self.passed = 0
        self.share = 0.0
        self.leaves = 0
        """Visits that passed without an error, where a leaf that requires gradients was named."""
        self.errors: Counter[str] = Counter()
        self.matched: Counter[str] = Counter()
        self.first_error: int | None = None
        self.backwards_after = 0
        self.silent: Counter[str] = Counter()
        """By the name of a node, how often it went backward with changed values, and with other gradients for it."""
        self.untried = 0
        """Changes of tensors in a custom Function whose backward cannot be tested."""
        self._spots: list[Spot] = []
        self._subjects: list[_Subject] = []
        self._passages: list[_Passage] = []
        self._steps = self._backwards = 0

    def enter(self, frame: FrameType) -> bool:
        """The line is about to run."""
        self.hits += 1
        self._subjects = [
            _Subject(tensor, self.hits <= _COPIED)
            for value in values_of(self.claim.names, frame)
            for tensor in _changeable(value)
        ]
        return True

    def leave(self, frame: FrameType, error: BaseException | None) -> bool:
        """The line has run."""
        settled = [subject.settle() for subject in self._subjects]
        if isinstance(error, RuntimeError) and any(part in str(error) for part in LEAF_ERRORS):
            self._fail(self.errors, error)
            return True
        self.leaves += error is None and any(subject.is_leaf for subject in self._subjects)
        changed = [subject for subject in self._subjects if subject.bumped]
        self.share = max([self.share, *(share for share, _ in settled)])
        self._spots += [spot for _, spot in settled if spot is not None]
        self._subjects = changed
        if changed:
            self.bumps += 1
            self._follow(changed)
        return self.hits < _HITS or (self._backwards < _BACKWARDS and self.hits < _MOST_HITS)

    def _follow(self, changed: list[_Subject]) -> None:
        """Observe backwards through the graph of the changed tensor.

        This uses the node from before the change: the later node may lead nowhere.
        """
        if not torch.is_grad_enabled():
            return
        for subject in changed:
            if not subject.passage.is_watched:
                subject.passage.watch(subject.tensor())
        passages = [subject.passage for subject in changed if subject.passage.is_watched]
        self.tracked += bool(passages)
        self._passages += passages

    def _fail(self, counter: Counter[str], error: BaseException) -> None:
        counter[str(error)[:300]] += 1
        if self.first_error is None:
            self.first_error = self._steps

    # -- around a backward

    def before_backward(self, roots: list[torch.Tensor]) -> None:
        """A backward is about to run: will it go on with values that the line has changed?"""
        spots, self._spots = self._spots, []
        for spot in spots:
            if spot.meet(roots):
                self._spots.append(spot)
            self.silent.update(set(spot.wrong))
            self.untried += spot.untried

    def backward_passed(self, steps: int) -> None:
        """A backward has ended without an error."""
        self._steps = steps
        seen = [passage for passage in self._passages if passage.seen]
        if seen:
            self.passed += 1
            self._passages = [passage for passage in self._passages if not passage.seen]
        self._backwards += 1
        self.backwards_after += bool(self.bumps)
        if self.claim.rule == "inplace-on-leaf" or self.backwards_after % 3 == 0:
            self._subjects = []

    def backward_failed(self, roots: list[torch.Tensor], error: BaseException, steps: int) -> None:
        """A backward found a saved tensor changed: was it one that this line had changed?"""
        self._steps = steps
        if VERSION_ERROR in str(error) and any(self._is_saved(subject, roots) for subject in self._subjects):
            self._fail(self.matched, error)

    @staticmethod
    def _is_saved(subject: _Subject, roots: list[torch.Tensor]) -> bool:
        """Whether a node of the graph saved this storage: its complaint changes with our version counter."""
        return subject.bumped and is_saved(subject.alias, roots)


def is_saved(tensor: torch.Tensor, roots: list[torch.Tensor]) -> bool:
    """Whether a node of the graph reports this tensor's storage: its message follows the version counter."""
    version = tensor._version
    _set_version(tensor, _MARK)
    try:
        return any(f"is at version {_MARK}" in complaint for node in nodes(roots) for complaint in _complaints(node))
    finally:
        _set_version(tensor, version)


def _changeable(value: Any) -> list[torch.Tensor]:
    """The tensors behind a name; for an optimizer its parameters."""
    if isinstance(value, torch.Tensor):
        return [] if value.is_sparse else [value]
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray):
        return _as_tensor(value)
    if isinstance(value, torch.optim.Optimizer):
        return [parameter for group in value.param_groups for parameter in group["params"]]
    return []


def _as_tensor(array: Any) -> list[torch.Tensor]:
    """A tensor with the memory of an array."""
    try:
        return [torch.from_numpy(array)] if array.flags.writeable else []
    except (TypeError, ValueError):  # of a type that PyTorch has not, or with negative strides
        return []


def _complaints(node: Any) -> list[str]:
    """The errors of a node when its saved tensors are read."""
    found = []
    for name in dir(node):
        if name.startswith("_saved_") or name == "saved_tensors":
            try:
                getattr(node, name)
            except RuntimeError as error:
                found.append(str(error))
    return found


def _set_version(tensor: torch.Tensor, version: int) -> None:
    setter: Any = torch._C._autograd._unsafe_set_version_counter
    try:
        setter((tensor,), (version,))
    except TypeError:  # before torch 2.6 it took one tensor
        setter(tensor, version)
