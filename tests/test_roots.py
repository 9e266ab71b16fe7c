"""Roots: which functions are interpreted for their own sake does not depend on the order in which they stand."""

from __future__ import annotations

from itertools import permutations

import pytest

from torchlint.files.source import SourceFile
from torchlint.model.model import Model
from torchlint.syntax.reading import read

TRAINING = "    optimizer.zero_grad()\n    loss(x).backward()\n    optimizer.step()\n"
PROGRAMS = {
    "a call": [
        "def step(optimizer, loss, x):\n" + TRAINING,
        "def run(optimizer, loss, x):\n    step(optimizer, loss, x)\n",
    ],
    "calls in a row": [
        "def step(optimizer, loss, x):\n" + TRAINING,
        "def epoch(optimizer, loss, x):\n    step(optimizer, loss, x)\n",
        "def run(optimizer, loss, x):\n    model.run()\n    epoch(optimizer, loss, x)\n",
    ],
    "a function that is handed over": [
        "def closure():\n    optimizer.zero_grad()\n    found = model(1)\n    found.backward()\n    return found\n",
        "def run():\n    optimizer = torch.optim.LBFGS(model.parameters())\n    optimizer.step(closure)\n",
    ],
    "two that call each other": [
        "def even(optimizer, loss, x):\n" + TRAINING + "    odd(optimizer, loss, x)\n",
        "def odd(optimizer, loss, x):\n" + TRAINING + "    even(optimizer, loss, x)\n",
    ],
}


def roots(functions: tuple[str, ...]) -> set[str]:
    source = SourceFile("train.py", ("import torch\n\n" + "\n\n".join(functions)).encode())
    traces = Model(read(source)).program.traces
    return {trace.root.name for trace in traces if trace.root is not None}


@pytest.mark.parametrize("functions", PROGRAMS.values(), ids=PROGRAMS)
def test_roots_do_not_depend_on_the_order_of_functions(functions: list[str]) -> None:
    found = [roots(order) for order in permutations(functions)]
    assert all(found) and all(item == found[0] for item in found), found


def test_methods_become_roots_behind_those_that_call_them() -> None:
    methods = [
        "    def step(self, x):\n        self.loss(x).backward()\n",
        "    def run(self, x):\n        self.step(x)\n",
    ]
    for order in permutations(methods):
        program = "class Trainer:\n" + "\n".join(order) + "\ntrainer.step(1)\ntrainer.run(1)\n"
        assert roots((program,)) == {"run"}


def test_a_root_notes_only_what_happens_in_it() -> None:
    program = "def one(loss):\n    loss.backward()\n\ndef two(loss):\n    loss.backward()\n"
    model = Model(read(SourceFile("train.py", program.encode())))
    of_roots = [trace.observations.backwards for trace in model.program.traces]
    assert [len(losses) for losses in of_roots] == [0, 1, 1]
    assert model.program.observations.backwards == [*of_roots[1], *of_roots[2]]


RETIRED = """
import torch

class Trainer:
    def __init__(self, optimizer, is_new):
        self.optimizer = optimizer
        {ending}

    def step(self, loss):
        loss.backward()
        self.optimizer.step()

    @staticmethod
    def clear(optimizer):
        optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("ending", "more", "expected"),
    [
        ("raise RuntimeError('retired')", "", {"clear"}),
        ("raise RuntimeError('retired')", "class New(Trainer):\n    def __init__(self): pass\n", {"clear", "step"}),
        ("if not is_new: raise RuntimeError('retired')", "", {"clear", "step"}),
        ("if is_new: return\n        raise RuntimeError('retired')", "", {"clear", "step"}),
    ],
    ids=["always", "inherited", "sometimes", "returns"],
)
def test_methods_of_a_class_without_objects_are_no_roots(ending: str, more: str, expected: set[str]) -> None:
    assert roots((RETIRED.format(ending=ending) + more,)) == expected


def test_calls_of_methods_of_a_class_without_objects_are_unknown() -> None:
    for ending, count in (("raise RuntimeError('retired')", 0), ("pass", 1)):
        program = RETIRED.format(ending=ending) + "\nTrainer(optimizer, True).step(loss)\n"
        observed = Model(read(SourceFile("train.py", program.encode()))).program.observations
        assert len(observed.backwards) == count, ending
