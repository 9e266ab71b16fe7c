"""A finding whose other half is in another file names the place and the file, in every format."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from click.testing import CliRunner

from tests.imports.programs import BACKWARD, loop, write
from torchlint.cli import cli

SCRIPTS = ("run0.py", "run1.py", "run2.py")


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A loop in `train.py` that goes backward in `utils/helpers.py`."""
    write(tmp_path, {"train.py": loop("from utils.helpers import back"), "utils/helpers.py": f"# ü\n{BACKWARD}"})
    monkeypatch.chdir(tmp_path)
    yield tmp_path


def torchlint(*arguments: str, stdin: str | None = None) -> str:
    return CliRunner().invoke(cli, ["check", "--no-cache", *arguments], input=stdin).stdout


def concise(*arguments: str) -> list[str]:
    lines = torchlint(*arguments, "--output-format", "concise").splitlines()
    return [" ".join(line.split()[:2]) for line in lines if ": " in line]


def test_the_finding_is_at_the_call() -> None:
    assert concise(".") == ["train.py:8:9: TL101"]
    assert concise("train.py") == concise("."), "it does not depend on which files are named"
    assert concise("utils") == []


def test_text_names_the_other_place() -> None:
    assert f"  {Path('utils', 'helpers.py')}:3:5: it happens here\n" in torchlint("train.py")


def test_the_message_says_whose_names_it_uses(repository: Path) -> None:
    """`self.model` is a name of the trainer; the script that is linted knows no `self`."""
    trainer = """\
import torch

class Trainer:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer

    def evaluate(self, loader):
        self.model.eval()
        with torch.no_grad():
            return [self.model(x) for x in loader]

    def fit(self, loader):
        for epoch in range(3):
            for x in loader:
                self.optimizer.zero_grad()
                self.model(x).mean().backward()
                self.optimizer.step()
            self.evaluate(loader)
"""
    script = """\
import torch
from torch import nn
from {module} import Trainer

net = nn.Sequential(nn.Linear(4, 1), nn.Dropout())
Trainer(net, torch.optim.SGD(net.parameters(), lr=0.1)).fit([])
"""
    write(
        repository, {"pkg/trainer.py": trainer, "train.py": script.format(module="pkg.trainer"), "pkg/__init__.py": ""}
    )
    found = torchlint("train.py")
    assert "train.py:6:1: error TL110 training-in-eval-mode: in `pkg/trainer.py`, `self.model` stays" in found
    assert f"  {Path('pkg', 'trainer.py')}:8:9: it happens here\n" in found


def test_a_message_about_the_call_says_where_the_other_name_is(repository: Path) -> None:
    meter = """\
class Meter:
    def __init__(self):
        self.value = None

    def __call__(self, x):
        self.value = x if self.value is None else 0.9 * self.value + 0.1 * x
"""
    script = """\
import torch
from meters import Meter

net = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
meter = Meter()
for x in [torch.ones(2, 4)]:
    loss = net(x).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    meter(loss)
"""
    write(repository, {"meters.py": meter, "train.py": script})
    assert "train.py:12:5: warning TL201 undetached-accumulation: this adds" in torchlint("train.py")
    assert "to `self.value` of `meters.py`:" in torchlint("train.py")


@pytest.mark.parametrize("format", ["json", "sarif"])
def test_formats_for_machines_have_its_address(format: str) -> None:
    found: Any = json.loads(torchlint("train.py", "--output-format", format))
    if format == "json":
        other = found[0]["diagnostics"][0]["relatedInformation"][-1]
        start = other["location"]["range"]["start"]
        assert unquote(other["location"]["uri"]).endswith("/utils/helpers.py")
        assert (start["line"], start["character"]) == (2, 4)
    else:
        other = found["runs"][0]["results"][0]["relatedLocations"][-1]
        place = other["physicalLocation"]
        assert place["artifactLocation"]["uri"] == "utils/helpers.py"
        assert (place["region"]["startLine"], place["region"]["startColumn"]) == (3, 5)


@pytest.mark.parametrize("format", ["azure", "concise", "github", "gitlab", "pylint"])
def test_formats_of_one_line_say_where(format: str) -> None:
    other = str(Path("utils", "helpers.py"))
    if format == "gitlab":
        other = json.dumps(other)[1:-1]
    assert f" ({other}:3:5)" in torchlint("train.py", "--output-format", format)


@pytest.mark.parametrize("format", ["junit", "html"])
def test_reports_show_it(format: str) -> None:
    assert f"{Path('utils', 'helpers.py')}:3:5" in torchlint("train.py", "--output-format", format)


def test_a_fix_changes_its_own_file_only(repository: Path) -> None:
    torchlint("--fix", "--unsafe-fixes", ".")
    assert (repository / "train.py").read_text().endswith("        opt.step()\n        opt.zero_grad()\n")
    assert (repository / "utils/helpers.py").read_text("utf-8") == f"# ü\n{BACKWARD}"
    assert concise(".") == []


def test_a_comment_at_the_call_excuses_it(repository: Path) -> None:
    path = repository / "train.py"
    path.write_text(path.read_text().replace("back(loss)", "back(loss)  # torchlint: ignore[TL101]"))
    assert concise(".") == []


def test_it_belongs_to_the_baseline_of_its_file(repository: Path) -> None:
    torchlint(".", "--baseline", "known.json", "--update-baseline")
    assert concise(".", "--baseline", "known.json") == []
    (repository / "utils/helpers.py").write_text("\n\n" + BACKWARD)
    assert concise(".", "--baseline", "known.json") == []


def test_what_the_other_file_is_told_is_not_told_twice(repository: Path) -> None:
    fit = (
        loop("").replace("def train(model, loader)", "def fit(model, loader)").replace("(loss)\n", "loss.backward()\n")
    )
    call = "from utils.helpers import fit\n\nfor epoch in range(3):\n    fit(net, loader)\n"
    write(repository, {"utils/helpers.py": fit, "train.py": call})
    assert concise(".") == [f"{Path('utils', 'helpers.py')}:8:9: TL101"]


def test_what_a_file_on_the_way_is_told_is_not_told_twice(repository: Path) -> None:
    """The meter is told nothing, the trainer is, and so the script that calls it is not."""
    meters = (
        "class Meter:\n    def __init__(self):\n        self.sum = 0\n    def update(self, x):\n        self.sum += x\n"
    )
    trainer = """\
from torch.nn.functional import mse_loss
from meters import Meter

def train(model, optimizer, loader):
    meter = Meter()
    for x, y in loader:
        loss = mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        meter.update(loss)
    return meter.sum
"""
    script = "import torch\nfrom trainer import train\n\nmodel = torch.nn.Linear(3, 1)\n"
    script += "train(model, torch.optim.SGD(model.parameters(), lr=0.1), [])\n"
    write(repository, {"meters.py": meters, "trainer.py": trainer, "script.py": script})
    assert concise("meters.py", "trainer.py", "script.py") == ["trainer.py:11:9: TL201"]


def test_two_passes_of_one_loop_are_one_evaluation(repository: Path) -> None:
    """The file of the class and the script that knows the model find the same first pass."""
    trainer = """\
from torch.nn.functional import cross_entropy

class Trainer:
    def __init__(self, model, loader, optimizer):
        self.model = model
        self.loader = loader
        self.optimizer = optimizer
        self.classes = None

    def step(self):
        self.model.train()
        for x, y in self.loader:
            self.optimizer.zero_grad()
            cross_entropy(self.model(x), y).backward()
            self.optimizer.step()
        self.test()

    def test(self):
        self.model.eval()
        right = 0
        for x, y in self.loader:
            if self.classes is None:
                self.classes = self.model.forward(x).size(1)
            right += (self.model(x).argmax(1) == y).sum().item()
        return right / self.classes
"""
    script = "import torch\nfrom trainer import Trainer\n\nmodel = torch.nn.Linear(3, 2)\n"
    script += "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\ntrainer = Trainer(model, data, optimizer)\n"
    script += "for epoch in range(3):\n    trainer.step()\n"
    write(repository, {"trainer.py": trainer, "script.py": script})
    assert concise("trainer.py", "script.py", "--select", "TL204") == ["trainer.py:23:32: TL204"]


def test_what_several_files_call_alike_is_told_to_the_first(repository: Path) -> None:
    model = "class Net(nn.Module):\n    def forward(self, x):\n        return torch.softmax(x, 1)\n"
    step = "def train(net, x, y):\n    F.cross_entropy(net(x), y).backward()\n"
    script = "from engine import train\nfrom nets import Net\n\ntrain(Net(), x, y)\n"
    write(
        repository,
        {
            "nets.py": f"import torch\nfrom torch import nn\n\n{model}",
            "engine.py": f"import torch.nn.functional as F\n\n{step}",
            **{f"run{number}.py": script for number in range(3)},
        },
    )
    assert concise(*SCRIPTS, "--select", "TL501") == ["run0.py:4:1: TL501"]
    assert concise("run2.py", "--select", "TL501") == [], "it does not depend on which files are named"
    (repository / "run0.py").write_text("")
    assert concise(*SCRIPTS, "--select", "TL501") == ["run1.py:4:1: TL501"]


def test_one_loop_that_several_scripts_lead_to_is_told_to_the_first(repository: Path) -> None:
    """However far away they are, and whatever each switches to evaluation."""
    test = "def test(model, loader):\n    right = 0\n    for x, y in loader:\n"
    test += "        right += (model(x).argmax(1) == y).sum().item()\n    return right\n"
    script = "import torch\nfrom package import test\n\nmodel = torch.nn.Linear(3, 2)\n"
    train = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\nfor x, y in data:\n    optimizer.zero_grad()\n"
    train += "    torch.nn.functional.cross_entropy(model(x), y).backward()\n    optimizer.step()\n"
    evaluate = "model.eval()\nprint(test(model, data))\n"
    write(
        repository,
        {
            "package/__init__.py": "from .evaluation import test\n",
            "package/evaluation.py": test,
            **{f"run{number}.py": script + train + "x = 1\n" * number + evaluate for number in range(3)},
        },
    )
    assert concise(*SCRIPTS, "--select", "TL204") == ["run0.py:11:7: TL204"]
    assert concise("run2.py", "--select", "TL204") == [], "it does not depend on which files are named"


def test_two_files_do_not_leave_it_to_each_other(repository: Path) -> None:
    """An earlier script repeats the loop: the file with the loop is on its way, and is told."""
    descend = "def descend(loss, optimizer):\n    loss.backward()\n    optimizer.step()\n"
    fit = (
        "def fit(model, data, optimizer):\n    for x, y in data:\n"
        "        descend((model(x) - y).pow(2).mean(), optimizer)\n"
    )
    call = "model = nn.Linear(2, 1)\nfit(model, data, torch.optim.Adam(model.parameters()))\n"
    write(
        repository,
        {
            "optim.py": descend,
            "loop.py": f"from optim import descend\n\n\n{fit}",
            "a_run.py": f"from loop import fit\nfrom optim import descend\nimport torch\nfrom torch import nn\n{call}",
        },
    )
    assert concise("a_run.py", "loop.py", "--select", "TL101") == ["loop.py:6:9: TL101"]


def test_what_is_far_away_is_told_to_the_file_that_is_nearest(repository: Path) -> None:
    """The retained graph is in `steps.py`, which is told nothing: the trainer is, and the script is not."""
    steps = "def step(loss, optimizer, keep):\n    optimizer.zero_grad()\n    loss.backward(retain_graph=keep)\n"
    steps += "    optimizer.step()\n"
    trainer = """\
from torch.nn.functional import mse_loss
from steps import step

def train(model, optimizer, loader):
    for x, y in loader:
        loss = mse_loss(model(x), y)
        step(loss, optimizer, True)
"""
    script = "import torch\nfrom trainer import train\n\nmodel = torch.nn.Linear(3, 1)\n"
    script += "train(model, torch.optim.SGD(model.parameters(), lr=0.1), torch.rand(9, 2, 3))\n"
    script += "model(torch.rand(3)).sum().backward()\n"  # so that it is worth following
    write(repository, {"steps.py": steps, "trainer.py": trainer, "script.py": script})
    assert concise("trainer.py", "script.py") == ["trainer.py:7:9: TL202"]


def test_a_rule_finds_the_same_alone(repository: Path) -> None:
    """The words of the rule stand in a file that the script reaches through another one only."""
    losses = "import torch\n\ncriterion = torch.nn.BCEWithLogitsLoss()\n"
    trainer = """\
from losses import criterion

def train(model, optimizer, loader):
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
"""
    script = """\
import torch
from trainer import train

class Net(torch.nn.Linear):
    def forward(self, x):
        return torch.sigmoid(super().forward(x))

model = Net(3, 1)
train(model, torch.optim.SGD(model.parameters(), lr=0.1), [])
"""
    write(repository, {"losses.py": losses, "trainer.py": trainer, "script.py": script})
    assert concise("script.py") == concise("script.py", "--select", "TL502") == ["script.py:9:1: TL502"]


def test_imports_are_followed_on_standard_input() -> None:
    text = loop("from utils.helpers import back")
    assert "TL101" in torchlint("-", "--stdin-filename", "other.py", stdin=text)


def test_each_file_alone(repository: Path) -> None:
    assert concise(".", "--no-follow") == []
    (repository / "torchlint.toml").write_text("follow = false\n")
    assert concise(".") == []


def test_src_names_folders(repository: Path) -> None:
    write(repository, {"deep/down/lib/other.py": BACKWARD, "train.py": loop("from other import back")})
    assert concise(".") == []
    (repository / "torchlint.toml").write_text('src = ["deep/*/lib"]\n')
    assert concise(".") == ["train.py:8:9: TL101"]


@pytest.mark.parametrize("folder", ["../other", "/etc", ""])
def test_src_stays_below_its_file(folder: str, repository: Path) -> None:
    (repository / "torchlint.toml").write_text(f'src = ["{folder}"]\n')
    result = CliRunner().invoke(cli, ["check", "."])
    assert result.exit_code == 2
    assert f"src: must name folders below that of this file, not `{folder}`" in result.stderr


def test_trace_shows_what_was_followed() -> None:
    shown = CliRunner().invoke(cli, ["trace", "train.py"]).stdout
    assert "follow    back(loss)" in shown
    assert "backward  back(loss)" in shown
    assert "Followed into: utils/helpers.py." in shown.replace("\\", "/")


def test_trace_shows_what_was_not_followed(repository: Path) -> None:
    imports = "from long import a\nfrom utils.helpers import back\nimport broken"
    calls = "        a(model)\n        broken.b(model)\n        back(loss)\n"
    text = loop(imports).replace("        back(loss)\n", calls)
    write(repository, {"train.py": text, "broken.py": "def b(model:\n", "long.py": "def a(model):\n    pass\n" * 400})
    assert calls in text
    shown = " ".join(CliRunner().invoke(cli, ["trace", "train.py"]).stdout.split())
    assert "Followed into: utils/helpers.py." in shown.replace("\\", "/")
    assert "Not followed (not Python that can be read): broken.py." in shown
    assert (
        "Not followed (longer than 8 kB (models: 32 kB), and has no word that matters to training): long.py." in shown
    )
    assert "ollowed" not in CliRunner().invoke(cli, ["trace", "utils/helpers.py"]).stdout


def test_a_method_is_called_in_another_file(repository: Path) -> None:
    steps = "def changed(parameters, kept):\n    for p in parameters():\n        kept.copy_(p.grad)\n"
    net = "from torch import nn\nfrom steps import changed\n\nclass Net(nn.Module):\n    def train_on(self, loss):\n"
    net += "        loss.backward()\n        changed(self.parameters, self.kept)\n"
    write(repository, {"steps.py": steps, "net.py": net})
    assert concise("steps.py", "net.py") == []


def test_a_loss_of_another_file_is_an_object(repository: Path) -> None:
    losses = """\
from torch import nn

class Loss:
    def reset(self):
        self.total, self.batches = 0, 0
    def get_loss(self):
        raise NotImplementedError
    def backward(self):
        self.total.backward()

class Likelihood(Loss):
    def add(self, outputs, target):
        self.total += nn.functional.nll_loss(outputs, target)
        self.batches += 1
    def get_loss(self):
        return self.total.item() / self.batches
"""
    trainer = """\
import torch
from losses import Likelihood

class Trainer:
    def __init__(self, model, loss=Likelihood()):
        self.model, self.loss = model, loss
        self.optimizer = torch.optim.Adam(model.parameters())
    def batch(self, x, y):
        loss = self.loss
        loss.reset()
        loss.add(self.model(x), y)
        self.model.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.get_loss()
    def epoch(self, loader):
        total = 0
        for x, y in loader:
            loss = self.batch(x, y)
            total += loss
        return total
"""
    write(repository, {"losses.py": losses, "trainer.py": trainer})
    assert concise("losses.py", "trainer.py") == []
