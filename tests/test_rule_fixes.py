"""The built-in rules state whether their fixes are safe, and the alternative if there is no fix."""

from __future__ import annotations

import pytest

from torchlint import Finding, Safety, SourceFile
from torchlint.engine import examination, registry
from torchlint.engine.registry import Selection


def find(rule: str, text: str) -> list[Finding]:
    """The findings of one rule in a file."""
    rules = tuple(item for item in registry.rules() if item.rule_name() == rule)
    return examination.lint(SourceFile("file.py", text.encode()), Selection(rules, frozenset(), {}))


EMPTYING = """\
import torch
{before}

def train(model, loader, optimizer):
    for x in loader:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
        {call}
{behind}
"""
RELEASE = "def release():\n    torch.cuda.empty_cache()"


@pytest.mark.parametrize(
    ("before", "call", "behind", "safety"),
    [
        ("", "torch.cuda.empty_cache()", "", Safety.SAFE),
        ("", "torch.cuda.empty_cache()", "def main(a, b, c):\n    train(a, b, c)\n    train(a, b, c)", Safety.SAFE),
        ("", "torch.cuda.empty_cache()\n        print(torch.cuda.memory_reserved())", "", Safety.UNSAFE),
        ("import monitor", "torch.cuda.empty_cache()\n        monitor.gpu_memory_usage()", "", Safety.UNSAFE),
        ("", "torch.cuda.empty_cache()\n    print(torch.cuda.memory_reserved())", "", Safety.SAFE),
        (RELEASE, "release()", "", Safety.SAFE),
        (RELEASE, "release()", "def between_runs():\n    release()", Safety.UNSAFE),
    ],
    ids=["plain", "called", "counters", "figures", "counters-behind", "helper", "shared-helper"],
)
def test_emptying_the_cache_is_deleted_safely_unless_somebody_sees_it(
    before: str, call: str, behind: str, safety: Safety
) -> None:
    (finding,) = find("empty-cache-in-loop", EMPTYING.format(before=before, call=call, behind=behind))
    assert finding.fix is not None
    assert finding.fix.safety is safety


TRAINING = """\
import torch
from wrappers import Wrapper

def train(model, loader):
    optimizer = {optimizer}
    {clearing}
    for x in loader:
        model(x).sum().backward()
        optimizer{key}.step()
"""


@pytest.mark.parametrize(
    ("optimizer", "key", "clearing", "help"),
    [
        ("torch.optim.Adam(model.parameters())", "", "", "call `optimizer.zero_grad()`"),
        ("Wrapper(model.parameters())", "", "", "clear them"),
        ("Wrapper(model.parameters())", "", "model.zero_grad()", "call `model.zero_grad()`"),
        ("dict(a=torch.optim.Adam(model.parameters()))", "['a']", "", "call `optimizer['a'].zero_grad()`"),
    ],
    ids=["own", "unknown", "through-the-model", "element"],
)
def test_help_names_a_method_that_is_there(optimizer: str, key: str, clearing: str, help: str) -> None:
    (finding,) = find("missing-zero-grad", TRAINING.format(optimizer=optimizer, key=key, clearing=clearing))
    assert finding.help == f"{help} once per step, before the `backward`"
    assert (finding.fix is None) is (help == "clear them")


IN_PLACE = "import torch\n\ndef f(x, w):\n    h = (x * w).exp()\n    h{change}\n    h.sum().backward()\n"


@pytest.mark.parametrize(
    ("change", "fixed"),
    [
        (" += \\\n        1", " = h + \\\n        1"),
        (" \\\n    += 1", " \\\n    = h + 1"),
        (" \\\n    += \\\n 1 - 2", " \\\n    = h + \\\n (1 - 2)"),
        ("+=1", "= h +1"),
    ],
    ids=["behind", "before", "both", "no-spaces"],
)
def test_an_augmented_assignment_over_several_lines(change: str, fixed: str) -> None:
    source = SourceFile("file.py", IN_PLACE.format(change=change).encode())
    (finding,) = find("inplace-on-saved-tensor", source.text)
    assert finding.fix is not None
    assert source.edited(finding.fix.edits).text == IN_PLACE.format(change=fixed)


UNCALLED = """\
import torch

def train(model, loader, scaler):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3)
    for x in loader:
        scaler.scale(model(x).sum()).backward()
        scaler.unscale_(optimizer)
        {call}
"""


@pytest.mark.parametrize("call", ["optimizer.step", "optimizer.zero_grad", "scheduler.step", "scaler.update"])
def test_a_call_that_is_missing_is_unsafe_to_add(call: str) -> None:
    """From then on the program trains in another way."""
    (finding,) = find("uncalled-method", UNCALLED.format(call=call))
    assert finding.fix is not None
    assert finding.fix.safety is Safety.UNSAFE
