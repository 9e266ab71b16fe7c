"""Programs with known verdicts: a comment `# verify: RULE TRUTH` on a line is a finding, and what a run must say.

`, says inconclusive` follows where a run cannot tell the truth and must say so, and `, on a GPU confirmed` where one
can.

`TORCHLINT_DEVICE=cuda pytest -rP tests/verify/test_programs.py` runs them on a GPU, and prints bytes and times.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from statistics import median

import pytest

from tests.verify.nursery import Nursery
from torchlint.files.source import SourceFile
from torchlint.finding import Finding, Position, Severity, Span
from torchlint.verify.folder import Limits
from torchlint.verify.launch import launch
from torchlint.verify.session import Subject, Verification, verify
from torchlint.verify.verdict import VERIFIABLE

pytestmark = pytest.mark.needs("torch")

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.py"))
MARKER = re.compile(
    r"# verify: ([\w-]+) ([\w-]+)(?:, unseen by the linter)?(?:, says ([\w-]+))?(?:, on a GPU ([\w-]+))?"
)
DEVICE = os.environ.get("TORCHLINT_DEVICE", "cpu")
ON_DEVICE = f"import runpy, sys, torch; torch.set_default_device({DEVICE!r}); del sys.argv[0]; "
ON_DEVICE += "runpy.run_path(sys.argv[0], run_name='__main__')"
_OF_A_CPU = {
    "have a generator of the CPU shuffle": "amp_convnet_leak phases_grad_mode tabular_trainer trainer_forgot",
    "start processes or threads, which know of no default device": "workers ddp_ thread two_trainers",
    "give a tensor to NumPy": "silent_changes",
    "catch an error that ends a GPU's context": "activations_tour",
}
"""Programs that cannot run on a GPU just by its being the default device: why, and the beginnings or parts of names."""
AT_ONCE = 2
MAX_SECONDS = 180
"""The time limit of each program. Processes that it spawns import torch and Dynamo, about 5 s of a CPU each."""


def _reason(path: Path) -> str | None:
    """Why a program runs on a CPU only; None for one that can run on a GPU."""
    return next((why for why, parts in _OF_A_CPU.items() if any(part in path.stem for part in parts.split())), None)


def subjects(path: Path) -> tuple[list[Subject], list[str]]:
    """The findings of the markers, and what must be said of them."""
    source = SourceFile.read(path)
    found, expected = [], []
    for number, line in enumerate(source.lines, 1):
        for rule, truth, said, on_gpu in MARKER.findall(line):
            span = Span(Position(number, len(line) - len(line.lstrip())), Position(number, len(line)))
            found.append(Subject(Finding(source.path, rule, "TL000", "", span, Severity.ERROR), source))
            expected.append((DEVICE != "cpu" and on_gpu) or said or truth)
    return found, expected


class Runner:
    """Runs programs: on a CPU in forks of a process for each thread, so that not each of them imports torch."""

    def __init__(self) -> None:
        self._local = threading.local()
        self._nurseries: list[Nursery] = []

    def run(self, path: Path) -> Verification:
        limits = Limits(max_seconds=MAX_SECONDS)
        if DEVICE != "cpu":
            command = [sys.executable, "-c", ON_DEVICE, str(path)]
            return verify(command, subjects(path)[0], path.parent, limits)
        launcher = self._nursery().launch if hasattr(os, "fork") else launch
        return verify([sys.executable, str(path)], subjects(path)[0], path.parent, limits, launcher=launcher)

    def _nursery(self) -> Nursery:
        if not hasattr(self._local, "nursery"):
            self._local.nursery = Nursery()
            self._nurseries.append(self._local.nursery)
        nursery: Nursery = self._local.nursery
        return nursery

    def close(self) -> None:
        for nursery in self._nurseries:
            nursery.close()


@pytest.fixture(scope="session")
def verifications() -> Iterator[dict[Path, Future[Verification]]]:
    """All programs, run side by side; with one thread each, or small ones would wait for each other."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    runner = Runner()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {path: pool.submit(runner.run, path) for path in PROGRAMS if DEVICE == "cpu" or _reason(path) is None}
    runner.close()


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_program(path: Path, verifications: dict[Path, Future[Verification]]) -> None:
    if path not in verifications:
        pytest.skip(f"of the programs that {_reason(path)}")
    verification = verifications[path].result()
    print(measured(verification))
    said = [(item.finding.name, item.verdict.answer.value) for item in verification.judged]
    found, expected = subjects(path)
    reasons = "\n".join(item.verdict.reason for item in verification.judged)
    truths = [(subject.finding.name, verdict) for subject, verdict in zip(found, expected, strict=True)]
    assert said == truths, f"{reasons}\n{verification.notes}"
    assert not [item.trouble for item in verification.evidence if item.trouble]


def measured(verification: Verification) -> str:
    """Device, memory and time of a step."""
    for evidence in verification.evidence:
        memory = [record["memory"] for record in evidence.series if "memory" in record]
        times = [record["ms"] for record in evidence.series[2:]]
        if memory and times:
            return f"{evidence.process.device}: {max(memory):,.0f} bytes at most, {median(times):.3g} ms a step"
    return "nothing measured"


CERTAIN = {"uncalled-method", "parameter-lost-by-move", "log-of-softmax", "worker-seeding", "schedule-in-wrong-unit"}
"""Rules whose findings a CPU cannot refute: true wherever their line runs, or perhaps on a GPU, later or by chance."""


def test_the_programs_cover_every_verdict_of_every_rule() -> None:
    """All but what needs a GPU; and at most one in twenty verdicts is that nothing can be said."""
    markers = [marker for path in PROGRAMS for marker in MARKER.findall(path.read_text("utf-8"))]
    covered = {(rule, answer) for rule, truth, _, on_gpu in markers for answer in (truth, on_gpu)}
    for rule in VERIFIABLE:
        assert (rule, "refuted") in covered or rule in CERTAIN
        assert (rule, "confirmed") in covered
    undecided = [rule for rule, truth, said, _ in markers if said == "inconclusive" != truth]
    assert len(PROGRAMS) >= 100
    assert len(undecided) <= len(markers) / 20
