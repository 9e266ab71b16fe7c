"""No valid Python crashes the linter: generated programs, mutated fixtures, the standard library."""

from __future__ import annotations

import ast
import sys
import sysconfig
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import indent

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.thinning import thinned
from torchlint import Finding, SourceFile, Span, lint, select
from torchlint.engine import registry

FIXTURES = sorted((Path(__file__).parent.parent / "fixtures").glob("*/*.py"))
LIBRARY = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))[::6]
TORCHLINT = Path(sys.executable).with_name("torchlint")
SELECTION = select(["all"], preview=True)
TRIGGERS = b"\n# " + b" ".join(group[0] for rule in registry.rules() for group in rule.triggers)
"""Appended to a file, it keeps the rules from being left out for want of their trigger words."""

many = settings(deadline=None, derandomize=True, database=None, suppress_health_check=[*HealthCheck])

ATOMS = st.sampled_from(
    (
        *("x", "y", "i", "self", "model", "optimizer", "scaler", "loss", "losses", "batch", "loader"),
        *(
            "self.opt",
            "self.loss",
            "model.weight",
            "x.grad",
            "p.data",
            "(1)",
            "2.5",
            "None",
            "True",
            "'text'",
        ),
        *("torch.zeros(2)", "torch.exp", "nn.Linear(2, 2)", "torch.optim.SGD(model.parameters(), lr=1)"),
    )
)
COMPOSITES = (
    "{0}({1})",
    "{0}({1}, k={1}, *{0}, **{1})",
    "{0}.backward(retain_graph=True)",
    "{0}.detach()",
    "{0}.item()",
    "{0}.append({1})",
    "{0}.add_({1})",
    "({0} + {1})",
    "(-{0} @ {1})",
    "({0} if {1} else {0})",
    "{0}[{1}]",
    "{0}[..., {1}:, None]",
    "[{0} for x in {1} if {0}]",
    "{{{0}: {1}, **{0}}}",
    "{{{0}, *{1}}}",
    "(lambda x, *a, k={0}: {1})",
    "(x := {0})",
    "f'{{x}} {{model.loss:>{{i}}}}'",
    "torch.exp({0}, out={1})",
    "F.relu({0}, inplace=True)",
    "torch.no_grad()({0})",
    "torch.utils.checkpoint.checkpoint({0}, {1})",
    "scaler.scale({0}).backward()",
    "sum({0} for i, (x, y) in enumerate({1}))",
    "(yield {0})",
    "(await {0})",
    "{0}.numpy()",
    "({0} and not {1} or {0} is {1} < {0})",
)
TARGETS = st.sampled_from(
    [
        "x",
        "y",
        "loss",
        "self.loss",
        "x[0]",
        "x.grad",
        "x, y",
        "(x, *y)",
        "[x, [y, i]]",
        "model.weight.data",
        "p.grad",
    ]
)
LINES = (
    "{t} = {0}",
    "{t} = y = {0}",
    "x += {0}",
    "x[{0}] *= {1}",
    "self.loss += {0}",
    "x: int = {0}",
    "del x, y[{0}]",
    "{0}",
    "return {0}",
    "raise {0} from {1}",
    "assert {0}, {1}",
    "global total",
    "pass",
    "break",
    "continue",
    "import torch.nn.functional as F, torch",
    "from torch import *",
    "from . import helper as optimizer",
    "{0}.zero_grad()",
    "optimizer.zero_grad(); loss.backward(); optimizer.step()",
    "optimizer.zero_grad",
    "loss.backward()",
    "optimizer.step()",
    "scaler.step(optimizer)",
    "losses.append(loss)",
    "torch.cuda.empty_cache()",
    "torch.set_grad_enabled({0})",
    "torch.autograd.set_detect_anomaly(True)",
    "p.data -= 0.1 * p.grad",
    "x.requires_grad_()",
    "loss = F.mse_loss(model(x), y)",
)
BLOCKS = (
    "for {t} in {0}:\n{a}",
    "for x, y in loader:\n{a}else:\n{b}",
    "async for x in {0}:\n{a}",
    "while {0}:\n{a}else:\n{b}",
    "while True:\n{a}",
    "if {0}:\n{a}elif {1}:\n{b}else:\n{a}",
    "with torch.no_grad(), {0} as {t}:\n{a}",
    "with torch.autocast('cuda'):\n{a}",
    "try:\n{a}except (OSError, {0}) as error:\n{b}else:\n{a}finally:\n{b}",
    "try:\n{a}except:\n{b}",
    "def train(model, loader, *, optimizer={0}):\n{a}",
    "@torch.no_grad()\ndef step(self, loss):\n{a}",
    "@{0}\nasync def closure() -> {1}:\n{a}",
    "class Meter({0}):\n    def update(self, loss):\n{A}    def train(self):\n{B}",
    "class Net(nn.Module):\n{a}",
    "match {0}:\n    case [x, *y] if {1}:\n{A}    case {{'loss': loss}} | None as loss:\n{B}",
)
EXPRESSIONS = st.recursive(
    ATOMS, lambda part: st.builds(str.format, st.sampled_from(COMPOSITES), part, part), max_leaves=4
)
STATEMENTS = st.builds(
    lambda line, first, second, target: line.format(first, second, t=target) + "\n",
    st.sampled_from(LINES),
    EXPRESSIONS,
    EXPRESSIONS,
    TARGETS,
)


def blocks(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    body = st.lists(parts, min_size=1, max_size=4).map("".join)

    def build(block: str, first: str, second: str, target: str, one: str, two: str) -> str:
        inner = {"a": indent(one, "    "), "b": indent(two, "    ")}
        deeper = {"A": indent(one, "        "), "B": indent(two, "        ")}
        return block.format(first, second, t=target, **inner, **deeper)

    return st.builds(build, st.sampled_from(BLOCKS), EXPRESSIONS, EXPRESSIONS, TARGETS, body, body)


PROGRAMS = st.lists(st.recursive(STATEMENTS, blocks, max_leaves=12), min_size=1, max_size=6).map("".join)


def spans(finding: Finding) -> Iterator[Span]:
    yield finding.span
    yield from (related.span for related in finding.related)


def check(data: bytes) -> None:
    """Lint twice: no crash, the same findings, each of them inside the file."""
    source = SourceFile("train.py", data + TRIGGERS)
    findings = lint(source, SELECTION)
    assert not [finding for finding in findings if finding.name in ("internal-error", "syntax-error")], findings
    assert findings == lint(SourceFile("train.py", data + TRIGGERS), SELECTION)
    for span in (span for finding in findings for span in spans(finding)):
        assert span.start <= span.end
        for position in (span.start, span.end):
            assert 1 <= position.line <= len(source.lines)
            assert 0 <= position.column <= len(source.line(position.line))


@many
@given(PROGRAMS)
def test_generated_programs(program: str) -> None:
    ast.parse(program)
    check(program.encode())


@many
@given(st.data())
def test_mutated_fixtures(data: st.DataObject) -> None:
    """Statements of a fixture are replaced by others of it, so that bugs come and go."""
    text = data.draw(st.sampled_from(FIXTURES)).read_text("utf-8")
    lines = text.splitlines(keepends=True)
    statements = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.stmt)]
    shared = Counter(node.lineno for node in statements)
    simple = [node for node in statements if not hasattr(node, "body") and shared[node.lineno] == 1]
    places = [node for node in simple if node.lineno == node.end_lineno]
    for _ in range(data.draw(st.integers(1, 5))):
        old, new = (data.draw(st.sampled_from(places)) for _ in range(2))
        source = ast.get_source_segment(text, new)
        lines[old.lineno - 1] = f"{' ' * old.col_offset}{source}\n"
    check("".join(lines).encode())


@pytest.mark.parametrize("path", thinned(LIBRARY, every=14), ids=lambda path: path.name)
def test_standard_library(path: Path) -> None:
    data = path.read_bytes()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ast.parse(data)
    check(data)


def test_output_does_not_depend_on_hashes(run: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = set()
    for seed in "12":
        monkeypatch.setenv("PYTHONHASHSEED", seed)
        outputs.add(run(TORCHLINT, "--isolated", "--output-format", "json", *FIXTURES[::12], code=1))
    assert len(outputs) == 1
