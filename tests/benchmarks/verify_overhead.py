"""The cost of verifying or watching a training step while the bug is there, and a test that no weight changes.

Run it as `python tests/benchmarks/verify_overhead.py`, or with models and bugs: `... --models mlp --bugs leak sum`;
`--watch` measures `torchlint watch`. Its goals: `... --watch --models small middle --bugs none` (steps of 1 and 20 ms).

Each program trains alone and under the probe at once, in two processes that take turns of some milliseconds, so that a
busy machine slows both alike; nothing is left out at the beginning. The ratio is that of the CPU time of the processes,
threads of the probe included, and of the time of a step: the median of all pairs, and an interval that holds the true
median with 95 %. A goal is met if the upper end of the interval meets it. The first 40 steps, in which everything is
looked at, are also told apart.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import sys
import tempfile
import textwrap
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.verify.nursery import Nursery
from torchlint.files.source import SourceFile
from torchlint.finding import Finding, Position, Severity, Span
from torchlint.verify.claims import Claim, claim
from torchlint.verify.evidence import Evidence
from torchlint.verify.folder import Folder, Limits, Watched
from torchlint.verify.verdict import VERIFIABLE
from torchlint.verify.watch.candidates import candidates
from torchlint.verify.watch.catalogue import checks
from torchlint.verify.watch.proposals import RULES

FIRST = 40


@dataclass(frozen=True)
class Model:
    """A program's model and data, its steps, in turns of so many, and the factor by which they may be slower."""

    code: str
    shape: str
    steps: int
    turn: int
    goal: float


MODELS = {
    "mlp": Model(
        "nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))",
        "(32, 16)",
        1_000,
        20,
        1.5,
    ),
    "small": Model(
        "nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 4))",
        "(64, 64)",
        1_000,
        20,
        1.7,
    ),
    "middle": Model(
        "nn.Sequential(nn.Conv2d(3, 16, 3), *[layer for _ in range(6) for layer in "
        "(nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU())], "
        "nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 4))",
        "(16, 3, 24, 24)",
        400,
        5,
        1.05,
    ),
    "conv": Model(
        "nn.Sequential(nn.Conv2d(3, 32, 3), *[layer for _ in range(6) for layer in "
        "(nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU())], "
        "nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 4))",
        "(16, 3, 32, 32)",
        100,
        2,
        1.05,
    ),
    "transformer": Model(
        "nn.Sequential(nn.TransformerEncoder(nn.TransformerEncoderLayer(128, 4, 256, batch_first=True), 6, "
        "enable_nested_tensor=False), nn.Flatten(), nn.Linear(128 * 32, 4))",
        "(16, 32, 128)",
        100,
        2,
        1.05,
    ),
}
PROGRAM = """\
import gc, hashlib, json, os, sys, time
import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
model = {model}
front, back = model[:1], model[1:]
optimizer = torch.optim.SGD(model.parameters(), lr=1e-5, momentum=0.9)
criterion = nn.CrossEntropyLoss()
x, y = torch.randn{shape}, torch.randint(0, 4, ({batch},))
history, total = [], 0.0
result, own, other = sys.argv[1], *(os.open(path, os.O_RDWR) for path in sys.argv[2:])


def train(steps):
    global total
    for step in range(steps):
{body}

gc.collect()
gc.freeze()  # or what torch made at its import is collected in one of the two, some time
cpu, clock = [time.process_time()], []
for turn in range({turns}):
    os.read(own, 1)
    start = time.perf_counter()
    train({turn})
    clock.append(time.perf_counter() - start)
    cpu.append(time.process_time())
    os.write(other, b".")
weights = b"".join(value.detach().numpy().tobytes() for value in model.state_dict().values())
times = {{"cpu": cpu, "clock": clock, "weights": hashlib.sha256(weights).hexdigest()}}
open(result, "w").write(json.dumps(times))
"""


@dataclass(frozen=True)
class Bug:
    """The body of a training loop, and findings: names of rules, each with a text on its line."""

    findings: dict[str, str]
    body: str


_STEP = """\
optimizer.zero_grad()
loss = criterion(model(x), y)
loss.backward()
optimizer.step()
"""
BUGS = {
    "none": Bug(
        {
            **dict.fromkeys(VERIFIABLE, "loss.backward()"),
            "cleared-before-step": "optimizer.zero_grad()",
            "step-without-backward": "optimizer.step()",
            "undetached-accumulation": "history.append",
            "inplace-on-saved-tensor": "loss = criterion",
            "inplace-on-leaf": "loss = criterion",
        },
        f"{_STEP}history.append(loss.item())\n",
    ),
    "calls": Bug(
        {
            "clip-outside-step": "clip_grad_norm_",
            "evaluation-with-grad": "loss = criterion",
            "generator-graph-in-discriminator-step": "loss = criterion",
            "lopsided-accumulation": "optimizer.step()",
            "module-created-in-forward": "loss = criterion",
            "softmax-before-cross-entropy": "loss = criterion",
            "training-in-eval-mode": "model.eval()",
        },
        "model.eval()\nmodel.train()\n"
        + _STEP.replace("optimizer.step", "nn.utils.clip_grad_norm_(model.parameters(), 1.0)\noptimizer.step"),
    ),
    "never-cleared": Bug({"missing-zero-grad": "loss.backward()"}, _STEP.replace("optimizer.zero_grad()\n", "")),
    "cleared-late": Bug(
        {"cleared-before-step": "optimizer.zero_grad()"},
        "loss = criterion(model(x), y)\nloss.backward()\noptimizer.zero_grad()\noptimizer.step()\n",
    ),
    "partly-cleared": Bug(
        {"cleared-before-step": "back.zero_grad()"},
        "optimizer.zero_grad()\nloss = criterion(model(x), y)\nloss.backward()\nback.zero_grad()\noptimizer.step()\n",
    ),
    "no-backward": Bug(
        {"step-without-backward": "optimizer.step()"}, "loss = criterion(model(x), y)\noptimizer.step()\n"
    ),
    "no-grad": Bug(
        {"training-under-no-grad": "with torch.no_grad()"},
        "optimizer.zero_grad()\nwith torch.no_grad():\n    hidden = front(x)\n"
        "loss = criterion(back(hidden), y)\nloss.backward()\noptimizer.step()\n",
    ),
    "leak": Bug({"undetached-accumulation": "history.append"}, f"{_STEP}history.append(loss)\n"),
    "sum": Bug({"undetached-accumulation": "total = total + loss"}, f"{_STEP}total = total + loss\n"),
    "retained": Bug(
        {"retain-graph-in-loop": "loss.backward("}, _STEP.replace("backward()", "backward(retain_graph=True)")
    ),
    "silent-change": Bug(
        {"inplace-on-saved-tensor": "hidden.data.mul_"},
        "optimizer.zero_grad()\nhidden = front(x).tanh()\nhidden.data.mul_(0.5)\n"
        "loss = criterion(back(hidden), y)\nloss.backward()\noptimizer.step()\n",
    ),
    "emptied-cache": Bug({"empty-cache-in-loop": "empty_cache()"}, f"{_STEP}torch.cuda.empty_cache()\n"),
    "anomaly-mode": Bug(
        {"anomaly-detection-left-on": "set_detect_anomaly"}, f"torch.autograd.set_detect_anomaly(True)\n{_STEP}"
    ),
    "several": Bug(
        {
            "missing-zero-grad": "loss.backward(",
            "retain-graph-in-loop": "loss.backward(",
            "undetached-accumulation": "history.append",
        },
        "loss = criterion(model(x), y)\nloss.backward(retain_graph=True)\noptimizer.step()\nhistory.append(loss)\n",
    ),
}
"""A program without a bug but with a finding of each rule, then one bug each, then several at once."""


@dataclass(frozen=True)
class Run:
    """Milliseconds that a step of one run took, of the CPU and by the clock, of all steps and of the first ones."""

    cpu: float
    clock: float
    first_cpu: float
    weights: str


class Program:
    """A training program on disk, with its findings."""

    def __init__(self, folder: Path, model: Model, bug: Bug, is_watched: bool) -> None:
        self._model = model
        self._watched = Watched(RULES, [check.name for check in checks() if check.is_on]) if is_watched else None
        self._folder = folder
        self._script = folder / "train.py"
        text = PROGRAM.format(
            model=model.code,
            shape=model.shape,
            batch=model.shape.strip("(").split(",")[0],
            body=textwrap.indent(bug.body, "        "),
            turn=model.turn,
            turns=model.steps // model.turn,
        )
        self._script.write_text(text, "utf-8")
        self._claims = self._candidates() if is_watched else self._found(bug)

    def _candidates(self) -> list[Claim]:
        source = SourceFile.read(self._script)
        found = enumerate(candidates(source))
        return [claim(number, finding, str(self._script.resolve()), source.data) for number, finding in found]

    def _found(self, bug: Bug) -> list[Claim]:
        source = SourceFile.read(self._script)
        claims: list[Claim] = []
        for rule, text in bug.findings.items():
            line = next(number for number, content in enumerate(source.lines, 1) if text in content)
            span = Span(Position(line, 8), Position(line, 9))
            finding = Finding(str(self._script), rule, "TL000", "", span, Severity.ERROR)
            claims.append(claim(len(claims), finding, str(self._script.resolve()), source.data))
        return claims

    def pair(self, nurseries: Sequence[Nursery]) -> tuple[Run, Run]:
        """Run it alone and verified, in turns; which of them begins is left to chance."""
        pipes = [self._folder / name for name in ("alone", "verified")]
        for pipe in pipes:
            pipe.unlink(missing_ok=True)
            os.mkfifo(pipe)
        starting = os.open(random.choice(pipes), os.O_RDWR)
        os.write(starting, b".")
        with ThreadPoolExecutor(2) as pool:
            alone = pool.submit(self._run, nurseries[0], pipes, {"TORCHLINT_VERIFY": ""}, _nothing)
            verified = pool.submit(self._run, nurseries[1], pipes[::-1], {}, _check)
        os.close(starting)
        return alone.result(), verified.result()

    def _run(
        self,
        nursery: Nursery,
        pipes: Sequence[Path],
        variables: dict[str, str],
        check: Callable[[list[Evidence]], None],
    ) -> Run:
        folder = Folder()
        result = self._folder / f"{pipes[0].name}.json"
        try:
            folder.write_plan(self._claims, self._folder, Limits(0, 0), watched=self._watched)
            command = [sys.executable, *map(str, (self._script, result, *pipes))]
            ended = nursery.launch(command, folder, Limits(max_seconds=600), variables)
            if ended.code:
                raise SystemExit(f"the program failed: {ended.description}")
            check(folder.evidence()[0])
        finally:
            folder.remove()
        return self._read(result)

    def _read(self, result: Path) -> Run:
        times = json.loads(result.read_text("utf-8"))
        cpu, clock = times["cpu"], times["clock"]
        first = FIRST // self._model.turn
        return Run(
            (cpu[-1] - cpu[0]) * 1000 / self._model.steps,
            sum(clock) * 1000 / self._model.steps,
            (cpu[first] - cpu[0]) * 1000 / FIRST,
            times["weights"],
        )


def _nothing(evidence: list[Evidence]) -> None:
    if evidence:
        raise SystemExit("a program that should run alone was probed")


def _check(evidence: list[Evidence]) -> None:
    if not evidence or not evidence[0].steps or evidence[0].trouble:
        raise SystemExit(f"the probe did not work: {evidence and evidence[0].trouble}")


@dataclass(frozen=True)
class Ratio:
    """The median of ratios, and an interval that holds the median of all with 95 %."""

    middle: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Ratio:
        """From the order of the values alone; of fewer than six the interval is their range."""
        ordered = sorted(values)
        count = len(ordered)
        tail, outside = 0.0, 0
        while (tail := tail + math.comb(count, outside) / 2**count) <= 0.025:
            outside += 1
        outside = max(outside - 1, 0)
        return cls(median(ordered), ordered[outside], ordered[count - 1 - outside])

    def __str__(self) -> str:
        return f"{self.middle:5.3f} [{self.low:5.3f}, {self.high:5.3f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="pairs of runs")
    parser.add_argument(
        "--steps", type=int, default=0, help=f"of each run, {FIRST} or more; 0: as many as suit the model"
    )
    parser.add_argument("--bugs", nargs="+", choices=BUGS, default=list(BUGS))
    parser.add_argument("--watch", action="store_true", help="measure `torchlint watch` with the checks that are on")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=["mlp", "conv"])
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    nurseries = [Nursery(), Nursery()]
    print(
        f"Python {sys.version.split()[0]}; CPU time of a step alone, then ratios: CPU, clock; of the first {FIRST}: CPU"
    )
    for model in arguments.models:
        for bug in arguments.bugs:
            measure(nurseries, model, bug, arguments.rounds, arguments.steps, arguments.watch)
    for nursery in nurseries:
        nursery.close()


def measure(nurseries: Sequence[Nursery], name: str, bug: str, rounds: int, steps: int, is_watched: bool) -> None:
    """Run the pairs, and print a line."""
    model = replace(MODELS[name], steps=steps or MODELS[name].steps)
    with tempfile.TemporaryDirectory() as folder:
        program = Program(Path(folder), model, BUGS[bug], is_watched)
        pairs = [program.pair(nurseries) for _ in range(rounds)]
    cpu = Ratio.of([after.cpu / before.cpu for before, after in pairs])
    clock = Ratio.of([after.clock / before.clock for before, after in pairs])
    first = Ratio.of([after.first_cpu / before.first_cpu for before, after in pairs])
    weights = {run.weights for pair in pairs for run in pair}
    said = [
        "" if len(weights) == 1 else "DIFFERENT WEIGHTS",
        f"above {model.goal}" if max(cpu.high, clock.high) > model.goal else "",
    ]
    spent = median(alone.cpu for alone, _ in pairs)
    print(f"{name:<12}{bug:<15}{spent:7.3f} ms  {cpu}  {clock}  {first}  {'; '.join(filter(None, said))}", flush=True)


if __name__ == "__main__":
    main()
