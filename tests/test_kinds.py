"""Numbers or tensors: what the model says of values of which it knows some operands, or some uses."""

from __future__ import annotations

import pytest

from torchlint.files.source import SourceFile
from torchlint.model.kinds import is_number
from torchlint.model.model import Model
from torchlint.model.values import Answer
from torchlint.syntax.reading import read

HEAD = "import numpy as np\nimport torch\nfrom torch import Tensor, nn\nfrom typing import Optional\n\n"
NUMBERS = ["a = 0.5 * 2", "a = np.log(x)", "a = loss.item()", "a = -len(x)", "a = x.shape[0] / 2", "a = sum([1, 2])"]
EITHER = [
    "a = x",
    "a = x * 0.5",
    "a = x.alpha",
    "a = x['alpha'] + 1",
    "a = -x[0]",
    "a = max(x, 0.1)",
    "a = x.sum()",
    "a = load(x)",
    "x = x.to('cuda')\n    a = x.alpha",
    "x.cuda()\n    a = x.alpha * 2",
    "a = x * 2\n    a *= 3",
    "a = 1.0 if x else x",
    "a = torch.mul(x, y)\n    a = x",
    "a = 1.0\n    for _ in range(3):\n        a *= x",
]
TENSORS = [
    "a = torch.ones(3)",
    "a = nn.Linear(2, 2)(x)",
    "a = net(x) * 2",
    "a = net(x).loss",
    "a = torch.mul(x, 2.0)",
    "a = x.detach()",
    "a = x * torch.ones(3)",
    "a = x\n    x.unsqueeze(0)",
    "a = x * 2\n    torch.relu(x)",
    "a = x * 2\n    a *= 3\n    a.cuda()",
    "a = x\n    torch.stack([x, x])",
    "a = x @ y",
    "a = x\n    y @ x",
    "a = x.grad",
    "a = 0\n    for _ in range(3):\n        a += net(x)",
    "a = 1.0 if x else torch.ones(3)",
]


def answer(body: str, parameter: str = "x") -> Answer:
    """The model's answer about the variable `a` at the end of a function."""
    text = f"{HEAD}def run(net, {parameter}, y):\n    {body}\n    loss = net(y).mean()\n    loss.backward()\n"
    (trace,) = (
        trace
        for trace in Model(read(SourceFile("run.py", text.encode()))).program.traces
        if trace.root is not None and trace.root.name == "run"
    )
    return is_number(trace.frame.locals["a"])


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        *((body, Answer.YES) for body in NUMBERS),
        *((body, Answer.UNKNOWN) for body in EITHER),
        *((body, Answer.NO) for body in TENSORS),
    ],
)
def test_numbers(body: str, expected: Answer) -> None:
    assert answer(body) is expected


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        ("float", Answer.YES),
        ("torch.Tensor", Answer.NO),
        ("Tensor", Answer.NO),
        ("'Tensor'", Answer.NO),
        ("Optional[Tensor]", Answer.NO),
        ("Tensor | None", Answer.NO),
        ("float | Tensor", Answer.UNKNOWN),
        ("list[Tensor]", Answer.UNKNOWN),
        ("Optional[float]", Answer.UNKNOWN),
    ],
)
def test_annotations(annotation: str, expected: Answer) -> None:
    assert answer("a = x", f"x: {annotation}") is expected
