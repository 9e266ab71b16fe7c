"""One program with one bug at a time, and who says so: torchlint, ruff, TorchFix, and Lightning, which runs it.

Prints a Markdown table; `--write` puts it into docs/compared.md. A cell names what a tool says of the program with the
bug, and does not say of the program without it. `--torchfix` names TorchFix's program; Lightning has to be importable.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "compared.md"
BLOCK = re.compile(r"(?<=<!-- compared -->\n).*?(?=<!-- /compared -->)", re.S)

_PARTS = """\
class Classifier({base}):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.more = nn.ModuleList([nn.Linear(16, 16)])
        self.last = nn.Linear(16, 3)
        {more}

    def forward(self, x):
        hidden = torch.sigmoid(self.first(x))
        hidden = hidden + 1
        for layer in self.more:
            hidden = F.relu(layer(hidden))
        hidden = F.dropout(hidden, 0.1, training=self.training)
        return self.last(hidden)
"""
_DATA = """\
    data = TensorDataset(torch.randn(64, 8), torch.randint(3, (64,)))
    loader = DataLoader(data, batch_size=8, shuffle=True, num_workers=3, persistent_workers=True)
"""
LOOP = f"""\
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)


{_PARTS.format(base="nn.Module", more="self.classes = 3")}

def train(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    for _ in range(3):
        total = 0.0
        for x, y in loader:
            optimizer.zero_grad()
            logits = model(x)
            loss = F.cross_entropy(logits, y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total += loss.item()
        scheduler.step()
        print(total)


def main():
{_DATA}\
    train(Classifier(), loader)


if __name__ == "__main__":
    main()
"""
"""A program with a loop of its own."""
MODULE = f"""\
import torch
from lightning.pytorch import LightningModule, Trainer
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)


{_PARTS.format(base="LightningModule", more="self.automatic_optimization = False")}
    def training_step(self, batch, index):
        optimizer = self.optimizers()
        x, y = batch
        optimizer.zero_grad()
        logits = self(x)
        loss = F.cross_entropy(logits, y)
        self.manual_backward(loss)
        nn.utils.clip_grad_norm_(self.parameters(), 1.0)
        optimizer.step()
        self.total = getattr(self, "total", 0.0) + loss.item()

    def on_train_epoch_end(self):
        self.lr_schedulers().step()
        print(self.total)

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        return [optimizer], [scheduler]


def main():
{_DATA}\
    trainer = Trainer(max_epochs=3, accelerator="cpu", logger=False, enable_checkpointing=False, log_every_n_steps=1)
    trainer.fit(Classifier(), loader)


if __name__ == "__main__":
    main()
"""
"""The same as a module of Lightning."""
_CLIP = "nn.utils.clip_grad_norm_(@.parameters(), 1.0)\n"
BUGS: dict[str, tuple[str, str]] = {
    "gradients are never cleared": (">optimizer.zero_grad()\n", ""),
    "`optimizer.zero_grad` without parentheses": ("optimizer.zero_grad()", "optimizer.zero_grad"),
    "gradients are cleared after the backward": (">^BACKWARD\n", ">^BACKWARD\n>optimizer.zero_grad()\n"),
    "the forward pass runs under `no_grad`": (">logits = @(x)\n", ">with torch.no_grad():\n>    logits = @(x)\n"),
    "gradients are clipped after the step": (
        f">{_CLIP}>optimizer.step()\n",
        f">optimizer.step()\n>{_CLIP}",
    ),
    "losses are summed up with their graphs": ("loss.item()", "loss"),
    "the graph of each step is retained": ("^BACKWARD", "^RETAIN"),
    "a saved tensor is changed in place": ("hidden = hidden + 1", "hidden += 1"),
    "a softmax before cross-entropy": ("F.cross_entropy(logits, y)", "F.cross_entropy(logits.softmax(dim=-1), y)"),
    "dropout that `eval()` does not switch off": ("0.1, training=self.training)", "0.1)"),
    "a layer that is made in `forward`": ("F.relu(layer(hidden))", "F.relu(nn.Linear(16, 16)(hidden))"),
    "layers in a plain list": ("nn.ModuleList([nn.Linear(16, 16)])", "[nn.Linear(16, 16)]"),
    "layers before `super().__init__()`": (
        "        super().__init__()\n        self.first = nn.Linear(8, 16)\n",
        "        self.first = nn.Linear(8, 16)\n        super().__init__()\n",
    ),
    "`require_grad` for `requires_grad`": (
        "        self.last = nn.Linear(16, 3)\n",
        "        self.last = nn.Linear(16, 3)\n        self.first.weight.require_grad = False\n",
    ),
    "a schedule that is never stepped": ("        ^SCHEDULE.step()\n", ""),
    "the cache is emptied at each step": (">optimizer.step()\n", ">optimizer.step()\n>torch.cuda.empty_cache()\n"),
    "anomaly detection is left on": (
        "torch.manual_seed(0)\n",
        "torch.manual_seed(0)\ntorch.autograd.set_detect_anomaly(True)\n",
    ),
    "a softmax without a dimension": ("return self.last(hidden)", "return F.softmax(self.last(hidden)).log()"),
    "checkpointing without `use_reentrant`": (
        "torch.sigmoid(self.first(x))",
        "torch.utils.checkpoint.checkpoint(self.first, x)",
    ),
    "a function that PyTorch has removed": ("    data = ", "    print(torch.symeig(torch.eye(3)))\n    data = "),
    "`torch.load` without `weights_only`": (
        "    loader = ",
        '    torch.save(data.tensors, "data.pt")\n    print(len(torch.load("data.pt")))\n    loader = ',
    ),
    "a loader without workers": (", num_workers=3, persistent_workers=True", ""),
    "a mutable default argument": ("def main():\n", "def main(settings=[]):\n    settings.append(1)\n"),
    "a closure over the variable of a loop": (
        "        for layer in self.more:\n",
        "        for layer in self.more:\n            self.last_width = lambda: layer.out_features\n",
    ),
}
"""Bugs, each with what is replaced and by what; signs stand for what the two programs write in their own ways."""
_SIGNS = {
    LOOP: {">": " " * 12, "@": "model", "^BACKWARD": "loss.backward()",
           "^RETAIN": "loss.backward(retain_graph=True)", "^SCHEDULE": "scheduler"},
    MODULE: {">": " " * 8, "@": "self", "^BACKWARD": "self.manual_backward(loss)",
             "^RETAIN": "self.manual_backward(loss, retain_graph=True)", "^SCHEDULE": "self.lr_schedulers()"},
}  # fmt: skip


def with_bug(program: str, bug: str) -> str:
    """A program with one bug, which must be where it is put."""
    before, after = BUGS[bug]
    for sign, text in _SIGNS[program].items():
        before, after = before.replace(sign, text), after.replace(sign, text)
    assert program.count(before) == 1, (bug, before)
    return program.replace(before, after)


_RUN = """
import os, runpy
os.cpu_count = lambda: 8
os.sched_getaffinity = lambda process: set(range(8))
runpy.run_path("program.py", run_name="__main__")
"""


def torchlint(path: Path) -> Counter[str]:
    command = [sys.executable, "-m", "torchlint", "--isolated", "--no-cache", "--select", "all", "--preview"]
    done = subprocess.run([*command, "--output-format", "concise", path], capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    return Counter(re.findall(r"TL\d{3}", done.stdout))


def ruff(path: Path) -> Counter[str]:
    """All rules, previews included, but for calls of `print` and missing annotations, which some bugs bring along."""
    command = [
        str(Path(sys.executable).with_name("ruff")),
        "check",
        "--isolated",
        "--no-cache",
        "--select",
        "ALL",
        "--ignore",
        "T201,ANN",
        "--preview",
        "--output-format",
        "json",
    ]
    done = subprocess.run([*command, path], capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    return Counter(finding["code"] for finding in json.loads(done.stdout))


def torchfix(program: str, path: Path) -> Counter[str]:
    done = subprocess.run([program, "--select", "ALL", path], capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    return Counter(re.findall(r"TOR\d{3}", done.stdout))


def lightning(path: Path) -> Counter[str]:
    """The warnings or the error of a run of three epochs, as on a machine with eight processors."""
    done = subprocess.run([sys.executable, "-c", _RUN], cwd=path.parent, capture_output=True, text=True, timeout=300)
    warned = re.findall(r"^\S+\.py:\d+: (?:\w+Warning: )?(\w.*)$", done.stderr, re.M)
    raised = re.findall(r"^(?:[\w.]+\.)?(\w+(?:Error|Exception))\b", done.stderr, re.M)
    assert bool(raised) == bool(done.returncode), done.stderr
    said = [f"warns: {' '.join(text.split()[:6])} ..." for text in warned if "deprecated" not in text]
    return Counter(said + [f"raises {name}" for name in raised[-1:]])


def table(program: str) -> str:
    """The table; `program` is TorchFix."""
    tools: dict[str, tuple[str, Callable[[Path], Counter[str]]]] = {
        "torchlint": (LOOP, torchlint),
        "ruff": (LOOP, ruff),
        "TorchFix": (LOOP, lambda path: torchfix(program, path)),
        "torchlint, in a LightningModule": (MODULE, torchlint),
        "Lightning, which runs it": (MODULE, lightning),
    }
    rows: dict[str, list[str]] = {bug: [] for bug in BUGS}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "program.py")
        for name, (text, tool) in tools.items():
            path.write_text(text, "utf-8")
            silent = tool(path)
            assert not silent or name == "ruff", (name, silent)
            for bug, row in rows.items():
                path.write_text(with_bug(text, bug), "utf-8")
                row.append(", ".join(sorted(tool(path) - silent)))
                print(name, bug, row[-1], sep=": ", file=sys.stderr)
    lines = [f"| {' | '.join(['one bug', *tools])} |", "| --- " * (len(tools) + 1) + "|"]
    lines += [f"| {' | '.join([bug, *(said or 'no' for said in row)])} |" for bug, row in rows.items()]
    counts = [str(sum(bool(row[column]) for row in rows.values())) for column in range(len(tools))]
    return "\n".join([*lines, f"| **of {len(rows)}** | {' | '.join(f'**{count}**' for count in counts)} |"])


def heading(program: str) -> str:
    said = subprocess.run([program, "--version"], capture_output=True, text=True).stdout.split()
    versions = {name: version(name) for name in ("torchlint", "ruff", "torch", "lightning")}
    of_torchfix = said[-1] if said else "?"
    return (
        f"Measured with torchlint {versions['torchlint']} (all rules, previews included), ruff {versions['ruff']}"
        f" (`--select ALL --ignore T201,ANN --preview`), TorchFix {of_torchfix} (`--select ALL`), and a run of three"
        f" epochs in Lightning {versions['lightning']} on torch {versions['torch']}."
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torchfix", default="torchfix", help="the program TorchFix")
    parser.add_argument("--write", action="store_true", help="write the table into docs/compared.md")
    options = parser.parse_args()
    text = f"{heading(options.torchfix)}\n\n{table(options.torchfix)}\n"
    if options.write:
        PAGE.write_text(BLOCK.sub(lambda _: text, PAGE.read_text("utf-8")), "utf-8")
    else:
        print(text)
