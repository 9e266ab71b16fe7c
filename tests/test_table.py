"""One table describes the behaviour of PyTorch, and arguments are bound to parameters as in Python."""

from __future__ import annotations

from collections import Counter

import pytest

from torchlint import SourceFile, lint, select
from torchlint.pytorch import api, triggers
from torchlint.pytorch.binding import Bound, Parameters, bind
from torchlint.pytorch.effects import Clears, GoesBackward, GradMode, Result, Steps
from torchlint.pytorch.table import FUNCTIONS, METHODS, family, function, last_names_with, operands

SELECTION = select(["ALL"])
CLIP = Parameters("parameters", "max_norm", "*", "foreach")


def bound(*positional: int, **keywords: int) -> Bound[int]:
    return bind(CLIP, positional, keywords)


def test_arguments_are_bound_by_position_and_by_name() -> None:
    assert bound(1, 2).values == {"parameters": 1, "max_norm": 2}
    assert bound(max_norm=2, parameters=1).values == {"parameters": 1, "max_norm": 2}
    assert bound(1, foreach=3).values == {"parameters": 1, "foreach": 3}


def test_arguments_that_no_parameter_takes_are_kept() -> None:
    assert bound(1, 2, 3).rest == (3,)
    assert bound(1, out=4).get("out") == 4


def test_what_stands_behind_a_star_is_unknown() -> None:
    found = bind(CLIP, [1], {}, starred=[7])
    assert (found.get("max_norm"), found.complete, found.rest) == (None, False, (7,))


def test_a_method_is_bound_like_its_function() -> None:
    div = operands(("self", "other"))
    assert bind(div, [1], {}, receiver=0).values == {"self": 0, "other": 1}
    assert bind(div, [], {"other": 1, "input": 0}).values == {"self": 0, "other": 1}


def test_each_name_has_one_entry_with_a_source() -> None:
    names = Counter(name for entry in (*FUNCTIONS, *METHODS) for name in entry.names)
    assert not [name for name, count in names.items() if count > 1]
    assert all(entry.source.startswith("https://") for entry in (*FUNCTIONS, *METHODS))


def test_effects_name_parameters() -> None:
    for entry in (*FUNCTIONS, *METHODS):
        known = {*entry.parameters.positional, *entry.parameters.by_keyword}
        named = {value for effect in entry.effects for value in effect._asdict().values() if isinstance(value, str)}
        assert named <= known, entry.names


def test_families() -> None:
    found = family("torch.optim.lr_scheduler.StepLR")
    assert found is not None and found.returns is Result.SCHEDULER
    found = family("torch.optim.sgd.SGD")
    assert found is not None and found.returns is Result.OPTIMIZER
    assert family("torch.optim.functional") is None and function("torch.cuda.amp.GradScaler") is not None


def test_what_is_derived_from_the_table() -> None:
    assert api.GRAD_MODES["torch.no_grad"] is GradMode.OFF and "torch.set_grad_enabled" in api.SET_GRAD_MODE
    assert last_names_with(GoesBackward) == {"backward", "manual_backward"}
    assert last_names_with(Steps, Clears) == {"step", "optimizer_step", "zero_grad", "zero_gradients"}
    assert triggers.BACKWARD == (b"backward",) and triggers.ANOMALY == (b"detect_anomaly", b"set_anomaly_enabled")


TRAIN = """\
import torch
from accelerate import Accelerator

def train(model, loader, accelerator: Accelerator):
    accelerator = Accelerator()
    scaler = torch.amp.GradScaler("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        loss = torch.nn.functional.mse_loss(model(x), y)
        {}
"""


@pytest.mark.parametrize(
    "code",
    [
        "accelerator.backward(loss=loss); optimizer.step()",
        "accelerator.backward(loss); optimizer.step()",
        "torch.autograd.backward(tensors=loss); optimizer.step()",
        "scaler.scale(loss).backward(); scaler.step(optimizer=optimizer); scaler.update()",
        "scaler.scale(outputs=loss).backward(); scaler.step(optimizer); scaler.update()",
    ],
)
def test_training_by_keyword(code: str) -> None:
    assert codes(TRAIN.format(code)) == {"TL101"}


@pytest.mark.parametrize("code", ["loss.backward(None, True)", "torch.autograd.backward(loss, None, True)"])
def test_flags_by_position(code: str) -> None:
    assert codes(TRAIN.format(f"optimizer.zero_grad(); {code}; optimizer.step()")) == {"TL202"}


SAVED = """\
import torch
from torch import nn

def compute(model, x, a):
    y = model(x)
    z = {}
    {} += 1
    z.sum().backward()
"""


@pytest.mark.parametrize(
    ("made", "changed", "found"),
    [
        ("torch.div(other=y, input=a)", "y", {"TL301"}),
        ("torch.div(other=a, input=y)", "y", set()),
        ("a.div(other=y)", "y", {"TL301"}),
        ("y.div(other=a)", "y", set()),
        ("torch.div(**{'other': y, 'input': a})", "y", {"TL301"}),
    ],
)
def test_operands_by_keyword(made: str, changed: str, found: set[str]) -> None:
    assert codes(SAVED.format(made, changed)) == found


@pytest.mark.parametrize(
    "module", ["ReLU(True)", "Dropout2d(0.5, True)", "Hardtanh(-1, 1, True)", "CELU(inplace=True)"]
)
def test_modules_in_place_by_position(module: str) -> None:
    made = f"torch.exp(y); nn.{module}(z)"
    assert codes(SAVED.format(made, "a")) == {"TL301"}


def codes(text: str) -> set[str]:
    return {finding.code for finding in lint(SourceFile("train.py", text.encode()), SELECTION)}
