"""TorchFix's codes: each that has a rule finds what it found there, the others say that they have none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from torchlint import SourceFile
from torchlint.engine import registry
from torchlint.engine.examination import lint

COMPARED = (Path(__file__).parent.parent / "docs" / "compared.md").read_text("utf-8")
PAGE = COMPARED.partition("\n## TorchFix\n")[2].partition("\n## ")[0]
CODES = sorted(set(re.findall(r"TOR\d{3}", PAGE)))
ALIASES = {alias for meta in registry.metas() for alias in meta.aliases}


@pytest.mark.parametrize(
    ("code", "program"),
    [
        ("TOR001", "import torch\nx = torch.solve(b, a)\n"),
        ("TOR001", "import torch\nx = torch.symeig(a, eigenvectors=True)\n"),
        ("TOR002", "import torch\nnet = torch.nn.Linear(2, 2)\nnet.weight.require_grad = False\n"),
        ("TOR003", "from torch.utils.checkpoint import checkpoint\ny = checkpoint(block, x)\n"),
        ("TOR004", "from torch import symeig\nx = symeig(a)\n"),
        ("TOR101", "import torch\nwith torch.backends.cuda.sdp_kernel(enable_math=True):\n    pass\n"),
        ("TOR101", "import torch\nx = torch.chain_matmul(a, b)\n"),
        ("TOR101", "import torch\nx = torch.cholesky(a)\n"),
        ("TOR101", "import torch\nq, r = torch.qr(a)\n"),
        ("TOR101", "import torch\nx = torch.range(0, 3)\n"),
        ("TOR101", "import torch\nwith torch.cuda.amp.autocast():\n    pass\n"),
        ("TOR102", "import torch\nx = torch.load(path, weights_only=False)\n"),
        ("TOR103", "from functorch import vmap\nf = vmap(g)\n"),
        ("TOR106", "import torch\ny = torch.log(1 + x)\n"),
        ("TOR107", "import torch\ny = torch.exp(x) - 1\n"),
        ("TOR108", "import torch\ny = torch.log(torch.sum(torch.exp(x), dim=1))\n"),
        ("TOR201", "from torchvision import models\nnet = models.resnet50(pretrained=True)\n"),
        ("TOR202", "from torchvision.transforms import v2\nmake = v2.ToTensor()\n"),
    ],
)
def test_what_it_found_is_found(code: str, program: str) -> None:
    selection = registry.select([code])
    assert lint(SourceFile("a.py", program.encode()), selection)
    lines = [f"{line}  # noqa: {code}" for line in program.splitlines()]
    assert not lint(SourceFile("a.py", "\n".join(lines).encode()), selection)


def test_a_prefix_means_all_of_them() -> None:
    assert {rule.rule_name() for rule in registry.select(["tor0"], preview=True).rules} == {
        "removed-api",
        "require-grad-typo",
        "reentrant-checkpoint",
    }


@pytest.mark.parametrize("code", CODES)
def test_the_page_says_what_stands_for_each(code: str) -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith("|") and code in line)
    names = re.findall(r"\| `([a-z-]+)`", row)
    if code in ALIASES:
        assert names == [meta.name for meta in registry.metas() if code in meta.aliases]
        return
    assert "| none" in row
    with pytest.raises(registry.UnknownRule, match=f"no rule stands for `{code}` of TorchFix"):
        registry.select([code])


def test_the_page_names_all_aliases() -> None:
    assert set(CODES) >= ALIASES
