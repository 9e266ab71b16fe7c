"""The program fails with an error of PyTorch. The report shows actual and expected values, and what to do.

At the end of a program that fails, the check asks whether sizes, types, devices or values explain PyTorch's message. It
reports a problem if they do. The reported line is the program's own line that raised the error. Other checks report a
second backward pass through a graph, values that were changed in place, and memory that ran out.

Source: PyTorch's messages, and "Frequently Asked Questions" in its documentation.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import torch

from torchlint_probe.checks.check import Check, Sighting
from torchlint_probe.claim import variables_of

_SHOWN = 4


class ProgramError(Check):
    """Reads the variables of the frames in an error's traceback."""

    name = "program-error"
    code = "TW701"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._seen: Sighting | None = None

    def died(self, error: BaseException) -> None:
        text = str(error)
        explain = next((explain for pattern, explain in _EXPLAINED if re.search(pattern, text)), None)
        site = self.probe.sites.of_traceback(error.__traceback__)
        if explain is None or not site:
            return
        scene = _Scene(error, self)
        said, why = text.splitlines()[0].split(". ")[0].rstrip(".!"), explain(scene)
        message = f"the program failed: {said}. {why[0].upper()}{why[1:]}"
        self._seen = Sighting(site, message[:400], {}, self.probe.steps)

    def sightings(self) -> Iterator[Sighting]:
        if self._seen is not None:
            yield self._seen


class _Scene:
    """The tensors and the module that an error was about."""

    def __init__(self, error: BaseException, check: ProgramError) -> None:
        frames: list[FrameType] = []
        traceback = error.__traceback__
        line = 0
        while traceback is not None:
            frames.append(traceback.tb_frame)
            if check.probe.sites.file(traceback.tb_frame.f_code) >= 0:
                line = traceback.tb_lineno
            traceback = traceback.tb_next
        own = [frame for frame in frames if check.probe.sites.file(frame.f_code) >= 0]
        self.frames = frames
        self._check = check
        self._own = own[-1] if own else frames[-1]
        self._line = linecache.getline(self._own.f_code.co_filename, line)

    @property
    def module(self) -> torch.nn.Module | None:
        """The innermost module of a library that was running."""
        found = (frame.f_locals.get("self") for frame in reversed(self.frames) if frame is not self._own)
        return next((item for item in found if isinstance(item, torch.nn.Module)), None)

    @property
    def of_module(self) -> str:
        module = self.module
        if module is None:
            return ""
        roots = (frame.f_locals.get("self") for frame in self.frames)
        parts = (pair for root in roots if isinstance(root, torch.nn.Module) for pair in root.named_modules())
        name = next((name for name, part in parts if part is module), "")
        return f"`{name}` (`{type(module).__name__}`)" if name else self._check.models.name(module)

    def innermost(self, *names: str) -> list[torch.Tensor]:
        """The tensors of these names in the innermost frame that has all of them."""
        for frame in reversed(self.frames):
            values = [frame.f_locals.get(name) for name in names]
            if all(isinstance(value, torch.Tensor) for value in values):
                return [value for value in values if isinstance(value, torch.Tensor)]
        return []

    @property
    def given(self) -> dict[str, torch.Tensor]:
        """By name, the tensors that the line of the program names, or else the input of the module."""
        variables = {**self._own.f_globals, **variables_of(self._own)}
        words = dict.fromkeys(re.findall(r"\b[A-Za-z_]\w*", self._line))
        found = {word: variables[word] for word in words if isinstance(variables.get(word), torch.Tensor)}
        return dict(list(found.items())[:_SHOWN])

    def describe(self, what: Callable[[torch.Tensor], object]) -> str:
        """A property of each tensor and of the module's weight."""
        shown = [f"`{name}` {what(tensor)}" for name, tensor in self.given.items()]
        module = self.module
        for tensor in self.innermost("input")[:1] if module is not None else []:
            shown.append(f"the input of {self.of_module} {what(tensor)}")
        weight = getattr(module, "weight", None)
        if isinstance(weight, torch.Tensor):
            shown.append(f"its weight {what(weight)}")
        return ", ".join(shown)


def _shapes(scene: _Scene) -> str:
    shapes = scene.describe(lambda tensor: f"has shape {tuple(tensor.shape)}")
    size, given = getattr(scene.module, "in_features", None), scene.innermost("input")
    if size is not None and given:
        shape = tuple(given[0].shape)
        return f"{scene.of_module} expects {size:,} features in the last dimension, but its input has shape {shape}"
    return shapes or "Print the shapes of the operands"


def _types(scene: _Scene) -> str:
    types = scene.describe(lambda tensor: f"has type {str(tensor.dtype).removeprefix('torch.')}")
    return f"{types or 'The types differ'}; convert one of them, for example with `.to(torch.float32)`"


def _target_type(scene: _Scene) -> str:
    found = scene.innermost("input", "target")
    given = f" has type {str(found[1].dtype).removeprefix('torch.')}" if found else " has another type"
    return f"Class numbers are integers, but the target{given}: convert it with `.long()`"


def _devices(scene: _Scene) -> str:
    devices = scene.describe(lambda tensor: f"is on {tensor.device}")
    return f"{devices or 'The devices differ'}; move the model and its inputs to one device"


def _indices(scene: _Scene) -> str:
    found = scene.innermost("input", "weight")
    if not found:
        return "An index is out of range for the table"
    indices, table = found
    given = f"the given ones are from {_least(indices):,} to {_most(indices):,}"
    rows = f"{scene.of_module or 'The table'} has {len(table):,} rows"
    return f"{rows}: valid indices are from 0 to {len(table) - 1:,}, but {given}"


def _classes(scene: _Scene) -> str:
    found = scene.innermost("input", "target")
    if not found or found[0].dim() < 1:
        return "A class is out of range"
    scores, target = found
    count = scores.shape[1] if scores.dim() > 1 else scores.shape[0]
    begins = " Do the classes start at 1?" if _least(target) == 1 and _most(target) == count else ""
    return (
        f"there are scores for {count:,} classes, so classes are from 0 to {count - 1:,}; the target has classes "
        f"from {_least(target):,} to {_most(target):,}.{begins}"
    )


def _batch(scene: _Scene) -> str:
    found = scene.innermost("input")
    shape = f" of shape {tuple(found[0].shape)}" if found else ""
    return (
        f"{scene.of_module or 'The layer'} gets an input{shape}: is the batch dimension missing? `unsqueeze(0)` adds it"
    )


def _inference(scene: _Scene) -> str:
    names = [f"`{name}`" for name, tensor in scene.given.items() if tensor.is_inference()]
    which = " and ".join(names) or "A tensor"
    return f"{which} was made in `torch.inference_mode()`; make it under `torch.no_grad()`, or clone it before training"


def _scaler(scene: _Scene) -> str:
    return "Call `unscale_`, `step` and `update` of the gradient scaler once per step, in this order"


def _unused(scene: _Scene) -> str:
    module = next((item for frame in scene.frames if _is_parallel(item := frame.f_locals.get("self"))), None)
    without = [] if module is None else [name for name, leaf in module.named_parameters() if leaf.grad is None]
    named = f" ({', '.join(f'`{name}`' for name in without[:_SHOWN])} have no gradient)" if without else ""
    return f"the loss does not use some parameters{named}: use or freeze them, or set `find_unused_parameters=True`"


def _no_graph(scene: _Scene) -> str:
    return "The loss has no graph: it was computed without gradients, or from `.item()`, `.detach()` or `.data`"


def _is_parallel(value: object) -> bool:
    return type(value).__name__ == "DistributedDataParallel"


def _least(values: torch.Tensor) -> int:
    return int(values.min()) if values.numel() else 0


def _most(values: torch.Tensor) -> int:
    return int(values.max()) if values.numel() else 0


_EXPLAINED: tuple[tuple[str, Callable[[_Scene], str]], ...] = (
    (r"index out of range in self", _indices),
    (r"Target -?\d+ is out of bounds", _classes),
    (r"Inference tensors cannot be saved|Inplace update to inference tensor", _inference),
    (r"expected \S*D(?: or \S*D)? input|\(unbatched\)|Expected more than 1 value per channel", _batch),
    (
        r"shapes cannot be multiplied|must match the size of tensor|channels, but got|size mismatch|Given normalized",
        _shapes,
    ),
    (r"on the same device|not on the expected device", _devices),
    (r"expected target dtype", _target_type),
    (r"same dtype|expected scalar type|should be the same", _types),
    (r"unscale_\(\) |No inf checks were recorded|step\(\) has already been called since", _scaler),
    (r"Expected to have finished reduction in the prior iteration", _unused),
    (r"does not require grad and does not have a grad_fn", _no_graph),
)
"""Parts of PyTorch's messages, with the functions that explain them; the first match counts."""
