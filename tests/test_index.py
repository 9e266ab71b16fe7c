"""The index: never wrongly no about what a rule finds, and mostly no about counters and entries of dictionaries."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from random import Random
from textwrap import indent
from typing import NamedTuple

import pytest

from tests.spellings.agreement import everything_asked
from torchlint import Finding, SourceFile, lint, select
from torchlint.engine.gate import by_syntax, by_words
from torchlint.engine.rule_table import loaded
from torchlint.index import FileIndex, changes
from torchlint.syntax.reading import read

FIXTURES = sorted((Path(__file__).parent.parent / "fixtures").glob("*/*.py"))
RULES = tuple(map(loaded, select(["ALL"], preview=True).rules))
SYNTAX = {rule.rule_name() for rule in RULES if "concerns" in vars(rule)}
"""The rules that have a say after the file is parsed."""


def index(code: str) -> FileIndex:
    return FileIndex(read(SourceFile("program.py", code.encode())))


def asks(name: str, code: bytes) -> bool:
    """Whether a rule asks the model about a program."""
    rules = [rule for rule in RULES if rule.rule_name() == name]
    return bool(by_syntax(by_words(rules, code), FileIndex(read(SourceFile("program.py", code)))))


SELECTION = select(sorted(SYNTAX), preview=True)


def found_in(source: SourceFile) -> list[Finding]:
    """The findings of these rules where each is asked, and all that changes in place is interpreted."""
    with everything_asked(RULES):
        return lint(source, SELECTION)


@pytest.mark.parametrize(
    "code",
    [
        "n = 0\nfor x in xs:\n    n += 1",
        "total = 0\nfor x in xs:\n    total += x.shape[0] * len(x)",
        "text = ''\nfor x in xs:\n    text += f'{x}'",
        "out = {}\nout['a'] = model(x)",
        "nn.init.normal_(layer.weight)",
        "names = []\nnames += ['a']",
        "self.n = 0\nself.n += 1",
        "counts = [0, 0]\ncounts[x] += 1",
        "counts = {'a': 0}\ncounts['a'] += 1",
        "y = torch.ones(3)\ny.mul_(2).add_(1)",
    ],
)
def test_numbers_texts_and_entries_are_no_tensors(code: str) -> None:
    program = index(f"def f(self, xs, model, x, layer):\n{indent(code, '    ')}\n")
    assert not list(changes.of_tensors(program.tree))


@pytest.mark.parametrize(
    "code",
    [
        "x += 1",
        "total = 0\nfor y in xs:\n    total += model(y)",
        "out[0] = x",
        "x[0], n = 1, 2",
        "x.add_(1)",
        "torch.add(x, 1, out=x)",
        "F.relu(x, inplace=True)",
        "self.scale += 1",
        "self.n, self.m = x, 1\nself.n += 1",
        "self.n = 0\nself.n += x\nself.n += 1",
        "z = {'a': x}\nz['a'] += 1",
        "z = {}\nz['a'] = x\nz['a'] += 1",
        "z = [x]\nz[0].add_(1)",
        "z = []\nz.append(x)\nz[0] += 1",
        "a, b = x.split(1)\na += 1",
        "w = torch.zeros(3, requires_grad=True)\nw[0] = 1",
        "relu_(x)",
        "y = torch.ones(3)\nz = y.mul_(2) * x\ny += 1",
    ],
)
def test_what_may_be_a_tensor_is_one(code: str) -> None:
    program = index(f"def f(self, xs, model, x, out):\n{indent(code, '    ')}\n")
    assert list(changes.of_tensors(program.tree))


@pytest.mark.parametrize(
    ("code", "trains"),
    [
        ("loss.backward()", True),
        ("go = loss.backward\ngo()", True),
        ("getattr(loss, 'backward')()", True),
        ("from torch.autograd import backward as go\ngo(loss)", True),
        ("class F:\n    def backward(ctx, g):\n        return g", False),
        ("print('backward')", False),
    ],
)
def test_a_backward_is_called_or_passed_on(code: str, trains: bool) -> None:
    assert index(code).goes_backward is trains


def test_comparisons_that_are_values() -> None:
    code = """
if a > 0 and not (b > 0):
    c = d > 0
while e > 0:
    torch.where(f > 0, x, 1 / x) if g > 0 else x * (h > 0)
if (i > 0).any() or (j := k > 0):
    assert m > 0, n > 0
"""
    assert [ast.unparse(node.left) for node in index(code).compared_values] == ["d", "f", "h", "i", "k", "n"]


def test_names_that_train() -> None:
    code = """
class Trainer:
    def fit(self):
        step(self.model)


def step(model):
    model.loss().backward()


def main():
    Trainer().fit()


def other():
    pass
"""
    assert index(code).training_names == {"step", "Trainer", "main"}


@pytest.mark.parametrize(
    ("loop", "computes", "keeps"),
    [
        ("for x in xs:\n        out.append(model(x))", True, True),
        ("for x in xs:\n        model(x)", True, False),
        ("with torch.no_grad():\n        for x in xs:\n            out.append(model(x))", False, False),
        ("[model(x) for x in xs]", True, False),
        ("out.append(model(xs))", False, False),
    ],
)
def test_loops_of_an_evaluation(loop: str, computes: bool, keeps: bool) -> None:
    program = index(f"def evaluate(model, xs, out):\n    model.eval()\n    {loop}\n")
    assert (program.computes_while_evaluating, program.keeps_while_evaluating) == (computes, keeps)


LAYER = """\
import torch
from torch import nn
import torch.nn.functional as F

def make_activation():
    return nn.ReLU(inplace=True)

def make_layer():
    return nn.Linear(1, 1)

class Helper:
    def clip(self, x):
        x.clamp_(0)
        return x

class Plain(nn.Module):
    def forward(self, x):
        return x

class Net(nn.Module):
    def __init__(self, backbone):
        super().__init__()
        self.c = nn.Linear(1, 1)
        self.backbone = backbone
        self.plain = Plain()
        self.helper = Helper()
        self.made = make_layer()
        {}

    def forward(self, x):
        y = torch.exp(self.c(x))
        {}
        return z

    def double(self, t):
        t.mul_(2)
        return t
"""


HELPERS = (
    ("make_activation", "nn.ReLU(inplace=True)", "nn.ReLU()"),
    ("helper", "x.clamp_(0)", "x = x.clamp(0)"),
    ("double", "t.mul_(2)", "t = t * 2"),
)
"""Names of helpers of the layer, with what they change in place and a form that changes nothing."""


@pytest.mark.parametrize(
    ("made", "used"),
    [
        ("self.act = nn.ReLU(True)", "z = y\nself.act(y)"),
        ("self.act = nn.ReLU(inplace=True)", "z = self.act(y)"),
        ("self.act = nn.Dropout(\n    p=float(1),\n    inplace=True,\n)", "z = self.act(y)"),
        ("act = nn.ReLU(inplace=True)\nself.act = act", "z = self.act(y)"),
        ("self.act = make_activation()", "z = self.act(y)"),
        ("self.acts = nn.ModuleList([nn.ReLU(inplace=True)])", "z = self.acts[0](y)"),
        ("self.act = nn.Sigmoid()", "z = self.act(self.c(x))\nz *= 2"),
        ("self.act = F.relu", "z = self.act(y)\nz += 1"),
        ("pass", "z = nn.ReLU(inplace=True)(y)"),
        ("pass", "z = nn.Softmax(dim=-1)(self.c(x))\nz += 1"),
        ("pass", "z = self.backbone(x).exp()\nz += 1"),
        ("pass", "z = self.inherited_model(x).exp()\nz += 1"),
        ("pass", "z = self.plain(self.c(x)).exp()\nz += 1"),
        ("pass", "z = self.made(x).exp()\nz += 1"),
        ("pass", "z = self(x).exp()\nz += 1"),
        ("pass", "z = getattr(self, 'c')(x).exp()\nz += 1"),
        ("pass", "z = self.double(y)"),
        ("pass", "z = self.helper.clip(y)"),
        ("pass", "def bump(t):\n    t += 1\n    return t\nz = bump(y)"),
        ("pass", "def bump():\n    nonlocal y\n    y += 1\nz = y\nbump()"),
        ("pass", "def bump(*ts):\n    ts[0].add_(1)\nbump(y)\nz = y"),
        ("pass", "z = [y]\nz[0].data += 1"),
        ("pass", "z = {'a': y}\nz['a'] += 1"),
        ("pass", "z = {'a': y}\nz['a'][0] = 1"),
        ("pass", "z = y\ny.view(-1)[0] = 1"),
        ("pass", "z = y\ny[\n    0\n] += 1"),
        ("pass", "z = y; y += 1"),
        ("pass", "z = y\nif n: y += 1"),
        ("pass", "a, b = y, x\na += 1\nz = y"),
        ("pass", "a, b = y.chunk(2)\na += 1\nz = y"),
        ("pass", "z: torch.Tensor = y\nz += 1"),
        ("pass", "z = y if x is None else x\nz += 1"),
        ("pass", "z = [t.add_(1) for t in [y]]"),
        ("pass", "if (w := y.exp()) is not None:\n    w += 1\nz = w"),
        ("pass", "with torch.autocast('cuda'):\n    y += 1\nz = y"),
        ("pass", "try:\n    y += 1\nexcept ValueError:\n    pass\nz = y"),
        ("pass", "while True:\n    z = y * y\n    y += 1"),
        ("pass", "match x:\n    case 1:\n        y += 1\nz = y"),
        ("pass", "if x is None:\n    z = y\nelse:\n    z = torch.tanh(y)\nz += 1"),
        ("pass", "if x is None:\n    return y\nz = y\nz += 1"),
        ("self.d, self.e = nn.Linear(1, 1), nn.Linear(1, 1)", "w = self.c(x)\nz = self.e(w)\nw += 1"),
        ("(self.d,\n self.e) = nn.Linear(1, 1), nn.Linear(1, 1)", "w = self.c(x)\nz = self.e(w)\nw += 1"),
        ("self.d = self.e = nn.Linear(1, 1)", "w = self.c(x)\nz = self.e(w)\nw += 1"),
        ("self.d = 1; self.e = nn.Linear(1, 1)", "w = self.c(x)\nz = self.e(w)\nw += 1"),
        ("if backbone: self.e = nn.Linear(1, 1)", "w = self.c(x)\nz = self.e(w)\nw += 1"),
        ("self.d, self.act = nn.Linear(1, 1), nn.ReLU(inplace=True)", "z = y\nself.act(y)"),
        ("pass", "z = y\ny \\\n    += 1"),
        ("pass", "z = y\ny.view(-1) \\\n    .add_(1)"),
        ("pass", "z = y\ny [0] = 1"),
        ("pass", "z = y\ny.add_ (1)"),
        ("pass", "z = y\ny[0], n = 1, 2"),
        ("pass", "z = y\n\u03b8 = y\n\u03b8 += 1"),
        ("pass", "z = y\n\u03b8 = y\n\u03b8.add_(1)"),
        ("self.\u03b8 = nn.Linear(1, 1)", "w = self.c(x)\nz = self.\u03b8(w)\nw += 1"),
    ],
)
def test_what_the_model_finds_is_read(made: str, used: str) -> None:
    layer = LAYER
    for name, change, other in HELPERS:
        if name not in made + used:  # else the layer has a change in place that the case does not need
            layer = layer.replace(change, other)
    code = layer.format(indent(made, " " * 8).strip(), indent(used, " " * 8).strip()).encode()
    assert "TL301" in {finding.code for finding in found_in(SourceFile("net.py", code))}
    assert asks("inplace-on-saved-tensor", code)


OBJECTS = """\
import torch

class Shapes:
    kind = "shapes"

class Boxes(Shapes):
    def __init__(self, tensor, scale=None):
        self.tensor = tensor
        self.areas = tensor.exp()
        self.scale = scale
        self.count = 0

    def put(self, tensor):
        self.tensor = tensor

    def clip(self):
        self.tensor.clamp_(0)

    def clip_all(self):
        self.clip()

    def shrink(self):
        self.areas /= 2

    def clip_given(self, model, x):
        y = model(x).exp()
        self.put(y)
        self.clip()
        return y.sum().backward()

def clip(boxes):
    boxes.tensor.clamp_(0)

def train(model, x):
    y = model(x).exp()
    {}
    y.sum().backward()
"""


@pytest.mark.parametrize(
    "code",
    [
        "boxes = Boxes(y)\nboxes.clip()",
        "boxes = Boxes(y)\nboxes.clip_all()",
        "boxes = Boxes(x, scale=y)\nboxes.scale *= 2",
        "boxes = Boxes(x)\nboxes.put(y)\nboxes.clip()",
        "boxes = Boxes(y)\nboxes.tensor += 1",
        "boxes = Boxes(y)\nclip(boxes)",
        "Boxes(y).clip()",
        "boxes = Boxes(model(x))\nboxes.shrink()\nboxes.areas.sum().backward()",
        "boxes = [Boxes(y)]\nboxes[0].clip()",
        "Boxes(x).clip_given(model, x)",
    ],
)
def test_what_an_object_holds_is_read(code: str) -> None:
    data = OBJECTS.format(indent(code, "    ").strip()).encode()
    found = "TL301" in {finding.code for finding in found_in(SourceFile("boxes.py", data))}
    assert asks("inplace-on-saved-tensor", data) or not found
    assert found


@pytest.mark.parametrize(
    "code",
    [
        "x = torch.zeros(3)\nx.requires_grad = True\nx += 1",
        "x = torch.zeros(3)\nx.requires_grad_()\nx += 1",
        "x = torch.zeros(3, requires_grad=True)\ny = x.view(-1)\ny.mul_(2)",
        "a = b = torch.ones(1, requires_grad=True)\nb += 1",
        "a, b = torch.ones(1, requires_grad=True), 1\na += 1",
        "net = nn.Linear(1, 1)\nnet.weight += 1",
        "net = nn.Linear(1, 1)\nw = net.weight\nw[0] = 1",
        "net = nn.Linear(1, 1)\ngetattr(net, 'weight').mul_(2)",
        "net = nn.Linear(1, 1)\nfor p in net.parameters():\n    p += 1",
        "net = nn.Linear(1, 1)\np = next(net.parameters())\np += 1",
        "net = nn.Sequential(nn.Linear(1, 1), nn.ReLU())\nnet[0].weight.mul_(2)",
        "net = nn.LSTM(1, 1)\nnet.bias_ih_l0[0] = 1",
        "def bump(module):\n    module.weight.normal_()\n\nbump(nn.Linear(1, 1))",
        "def make():\n    return torch.zeros(3, requires_grad=True)\n\nx = make()\nx += 1",
        "x = torch.ones(1, requires_grad=True)\nwith torch.no_grad():\n    with torch.enable_grad():\n        x += 1",
        "w = torch.ones(1, requires_grad=True)\nfor i in range(3):\n    (w * 2).sum().backward()\n    w -= w.grad",
    ],
)
def test_what_the_model_finds_of_leaves_is_read(code: str) -> None:
    for text in (code, f"def main():\n{indent(code, '    ')}"):
        data = f"import torch\nfrom torch import nn\n\n{text}\n".encode()
        found = "TL302" in {finding.code for finding in found_in(SourceFile("leaf.py", data))}
        assert asks("inplace-on-leaf", data) or not found
        assert found or text != code


CHANGES = ("{} += 1", "{}.mul_(2)", "{}[0] = 0", "torch.relu_({})", "{}.data.add_(1)", "{}[..., :1] /= 3")


@pytest.mark.slow
def test_never_wrongly_no_about_changes_anywhere() -> None:
    """Wherever the fixtures bind something to what they compute, it is changed in place: what is found, is read.

    What the fixtures hold as they are, `test_fixtures` finds through the index.
    """
    found = 0
    for path in FIXTURES[::6]:
        lines = path.read_text(encoding="utf-8").splitlines()
        random = Random(path.name)
        for node in sample(list(bindings(path)), random):
            change = random.choice(CHANGES).format(ast.unparse(node.targets[0]))
            changed = [*lines[: node.end_lineno], " " * node.col_offset + change, *lines[node.end_lineno :]]
            verdict = judged(path, "\n".join(changed).encode())
            assert not verdict.missed, (path, node.lineno, change)
            found += verdict.found
    assert found > 6


def sample(nodes: list[ast.Assign], random: Random) -> list[ast.Assign]:
    return random.sample(nodes, min(1, len(nodes)))


def bindings(path: Path) -> Iterator[ast.Assign]:
    """Assignments of results to one name or attribute, each on lines of its own."""
    try:
        tree = ast.parse(path.read_bytes())
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.value, (ast.Call, ast.BinOp)):
            if isinstance(node.targets[0], (ast.Name, ast.Attribute)):
                yield node


class Verdict(NamedTuple):
    """How many rules find something in a file, and which of them would not have asked."""

    found: int
    missed: list[str]


def judged(path: Path, code: bytes) -> Verdict:
    found = {finding.name for finding in found_in(SourceFile(str(path), code))} & SYNTAX
    return Verdict(len(found), [name for name in sorted(found) if not asks(name, code)])
