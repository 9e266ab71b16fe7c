"""Runs the programs with known verdicts on a GPU, and prints what was said, with bytes and times.

`python tests/verify/on_gpu.py` is the one command that tries the GPU path; `--device cpu` runs the same on a CPU. The
programs are run as they are, with `torch.set_default_device`; one that does not stand that is listed as not run.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from statistics import median

from torchlint.finding import Finding, Position, Severity, Span
from torchlint.source import SourceFile
from torchlint.verify.folder import Limits
from torchlint.verify.session import Subject, Verification, verify

PROGRAMS = Path(__file__).parent / "programs"
MARKER = re.compile(r"# verify: ([\w-]+) ([\w-]+)")
RUN = "import runpy, sys, torch; torch.set_default_device({device!r}); runpy.run_path(sys.argv[1], run_name='__main__')"


def subjects(path: Path) -> list[tuple[Subject, str]]:
    """The findings of a program's markers, and the verdicts that they must get on a CPU."""
    source = SourceFile.read(path)
    found = []
    for number, line in enumerate(source.lines, 1):
        for marker in MARKER.finditer(line):
            span = Span(Position(number, len(line) - len(line.lstrip())), Position(number, len(line)))
            finding = Finding(source.path, marker[1], "TL000", "", span, Severity.ERROR)
            found.append((Subject(finding, source), marker[2]))
    return found


def expected(rule: str, verdict: str, device: str) -> str:
    """What emptying the cache costs shows on a GPU."""
    return "confirmed" if rule == "empty-cache-in-loop" and verdict == "inconclusive" and device != "cpu" else verdict


def row(verification: Verification) -> str:
    """Device, memory and time of a step."""
    for evidence in verification.evidence:
        memory = [record["memory"] for record in evidence.series if "memory" in record]
        times = [record["ms"] for record in evidence.series[2:]]
        if memory and times:
            return f"{evidence.process.device}, {max(memory):,.0f} bytes at most, {median(times):.3g} ms a step"
    return "nothing measured"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("programs", nargs="*", type=Path, default=sorted(PROGRAMS.glob("*.py")))
    arguments = parser.parse_args()
    right = wrong = 0
    for path in arguments.programs:
        pairs = subjects(path)
        command = [sys.executable, "-c", RUN.format(device=arguments.device), str(path)]
        verification = verify(command, [subject for subject, _ in pairs], path.parent, Limits())
        print(f"{path.stem}: {row(verification)}; {verification.ended.description if verification.ended else ''}")
        for judged, (_, wanted) in zip(verification.judged, pairs, strict=True):
            said = judged.verdict.answer.value
            good = said == expected(judged.finding.name, wanted, arguments.device)
            right, wrong = right + good, wrong + (not good)
            mark = "ok   " if good else "ODD  "
            print(f"  {mark}{judged.finding.name}: {said} ({judged.verdict.reason})", flush=True)
    print(f"{right} as expected, {wrong} otherwise")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
