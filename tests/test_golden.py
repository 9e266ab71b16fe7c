"""The model of the fixtures is unchanged: `pytest tests/test_golden.py --bless` writes it again."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.benchmarks import corpus
from tests.golden import compare, traces
from tests.thinning import thinned
from torchlint.engine import registry
from torchlint.trace import FileTrace, trace

FIXTURES = Path(__file__).parent.parent / "fixtures"
GOLDEN = Path(__file__).parent / "golden"
SAME = (
    "the outlines are equal, but not all that is in the traces: compare them by `tests/golden/compare.py traces --full`"
)


def subjects() -> list[Path]:
    """The fixtures of rules that are no previews any more: a new rule is files of its own, and no others."""
    folders = [FIXTURES / rule.rule_name().replace("-", "_") for rule in registry.rules() if not rule.preview]
    return sorted(path for folder in folders for path in folder.glob("*.py") if not path.name.endswith(".fixed.py"))


def golden(path: Path) -> Path:
    """Where the trace of a fixture is kept, and the digest of what fixes make of it."""
    return (GOLDEN / path.relative_to(FIXTURES)).with_suffix(".txt")


def told(path: Path, found: FileTrace) -> Iterator[str]:
    """The digests of a fixture and of its fixed form, and the outline of the fixture."""
    yield f"{path.name} {traces.digest(found)}"
    fixed = path.with_suffix(".fixed.py")
    if fixed.exists():
        yield f"{fixed.name} {traces.digest(trace(traces.read(fixed, FIXTURES)))}"
    yield from traces.outline(found)


@pytest.mark.parametrize("path", thinned(subjects(), every=4), ids=lambda path: str(path.relative_to(FIXTURES)))
def test_trace_of_a_fixture(path: Path, bless: bool) -> None:
    found = trace(traces.read(path, FIXTURES))
    lines, kept = list(told(path, found)), golden(path)
    if bless:
        kept.parent.mkdir(exist_ok=True)
        kept.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    before = kept.read_text("utf-8").splitlines() if kept.exists() else []
    changes = traces.difference(before, lines, around=2)
    if changes:
        pytest.fail("\n".join(["what the model sees has changed:", *changes, *([] if any_row(changes) else [SAME])]))
    assert places(found) <= python_places(found.source.text), "a place where Python's own parser sees nothing begin"


def places(found: FileTrace) -> set[tuple[int, int]]:
    """All places that are told of a file: lines and columns from 0."""
    spans = [row.span for function in found.functions for row in function.rows if row.span]
    spans += [span for _, span in found.skipped]
    starts = {(span.start.line - 1, span.start.column) for span in spans}
    return starts | {tuple(facts["at"]) for facts in found.values.values() if "at" in facts}


def python_places(text: str) -> set[tuple[int, int]]:
    """Where the nodes of Python's own parser begin, in code points."""
    lines = [line.encode() for line in text.split("\n")]
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.expr | ast.stmt)]
    return {(node.lineno - 1, len(lines[node.lineno - 1][: node.col_offset].decode())) for node in nodes}


def any_row(changes: list[str]) -> bool:
    """Whether more than digests is different."""
    return any(re.match(r"[-+](?!\S+\.py )", line) for line in changes)


def test_no_trace_is_kept_of_a_fixture_that_is_gone() -> None:
    assert set(GOLDEN.rglob("*/*.txt")) == {golden(path) for path in subjects()}


def test_digests_of_the_corpus_are_those_of_its_pins() -> None:
    lines = (GOLDEN / "corpus.txt").read_text("utf-8").splitlines()
    assert all(re.fullmatch(rf"[0-9a-f]{{{traces.DIGITS}}}  \S+\.py", line) for line in lines)
    packages = {line.split()[1].partition("/")[0] for line in lines}
    assert packages <= {pin.replace("==", "-") for pin in corpus.PINS}
    assert len(packages) > len(corpus.PINS) // 2


@pytest.mark.parametrize("what", ["traces", "findings"])
def test_a_folder_is_compared_with_what_it_was(what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, kept = tmp_path / "code", tmp_path / "kept.txt"
    (code / "sub").mkdir(parents=True)
    bad = (FIXTURES / "missing_zero_grad" / "bad.py").read_bytes()
    (code / "sub" / "train.py").write_bytes(bad)
    (code / "empty.py").write_text("", "utf-8")
    (code / "broken.py").write_bytes(bad + b"\nx = (\n")
    command = [what, str(code), "--jobs", "1"]
    assert compare.main([*command, "--write", str(kept)]) == 0
    assert compare.main([*command, "--against", str(kept)]) == 0
    assert capsys.readouterr().out.endswith(f"{what} of 3 files, all equal\n")
    (code / "sub" / "train.py").write_text("", "utf-8")
    assert compare.main([*command, "--against", str(kept)]) == 1
    gone = [line for line in capsys.readouterr().out.splitlines() if line.startswith("-")]
    assert gone and all("sub/train.py" in line for line in gone)
    assert [line for line in kept.read_text("utf-8").splitlines() if "broken.py" in line]


def test_whole_traces_are_written(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("loss.backward()\noptimizer.step()\n", "utf-8")
    full = tmp_path / "full"
    assert compare.main(["traces", str(tmp_path), "--jobs", "1", "--full", str(full)]) == 0
    assert json.loads((full / "train.py.json").read_text("utf-8"))["path"] == "train.py"
