"""What being verified costs a training step, and that it changes no weight.

Run it as `python tests/benchmarks/verify_overhead.py`.

Each program trains alone and under the probe, with a finding of each rule on its lines, in random order; the ratio is
that of the medians of the time of a step.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from torchlint.files.source import SourceFile
from torchlint.finding import Finding, Position, Severity, Span
from torchlint.verify.claims import Claim, claim
from torchlint.verify.folder import Folder, Limits
from torchlint.verify.launch import launch
from torchlint.verify.verdict import VERIFIABLE

MODELS = {
    "mlp": (
        "nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))",
        "(32, 16)",
        3000,
    ),
    "conv": (
        "nn.Sequential(nn.Conv2d(3, 32, 3), *[layer for _ in range(6) for layer in "
        "(nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU())], "
        "nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 4))",
        "(16, 3, 32, 32)",
        200,
    ),
    "transformer": (
        "nn.Sequential(nn.TransformerEncoder(nn.TransformerEncoderLayer(128, 4, 256, batch_first=True), 6, "
        "enable_nested_tensor=False), nn.Flatten(), nn.Linear(128 * 32, 4))",
        "(16, 32, 128)",
        200,
    ),
}
PROGRAM = """\
import hashlib, json, sys, time
import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
model = {model}
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
criterion = nn.CrossEntropyLoss()
x, y = torch.randn{shape}, torch.randint(0, 4, ({batch},))


def train(steps):
    history = []
    for step in range(steps):
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        history.append(loss.item())


train(10)
start = time.perf_counter()
train({steps})
spent = time.perf_counter() - start
weights = b"".join(value.detach().numpy().tobytes() for value in model.state_dict().values())
result = {{"ms": spent * 1000 / {steps}, "weights": hashlib.sha256(weights).hexdigest()}}
open(sys.argv[1], "w").write(json.dumps(result))
"""
FLAGGED = {
    "cleared-before-step": "optimizer.zero_grad()",
    "step-without-backward": "optimizer.step()",
    "undetached-accumulation": "history.append",
    "inplace-on-saved-tensor": "loss = criterion",
    "inplace-on-leaf": "loss = criterion",
}
"""Where the finding of a rule is, if not on the line of the backward."""


def alone(script: Path, result: Path) -> None:
    subprocess.run([sys.executable, script, result], check=True)


def verified(script: Path, result: Path) -> None:
    source = SourceFile.read(script)
    lines = source.lines
    claims: list[Claim] = []
    for rule in VERIFIABLE:
        text = FLAGGED.get(rule, "loss.backward()")
        line = next(number for number, content in enumerate(lines, 1) if text in content)
        span = Span(Position(line, 8), Position(line, 9))
        finding = Finding(str(script), rule, "TL000", "", span, Severity.ERROR)
        claims.append(claim(len(claims), finding, str(script.resolve()), source.data))
    folder = Folder()
    try:
        limits = Limits(max_steps=0, max_seconds=0)
        folder.write_plan(claims, script.parent, limits)
        launch([sys.executable, str(script), str(result)], folder, limits)
        assert folder.evidence()[0][0].steps
    finally:
        folder.remove()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("models", nargs="*", default=list(MODELS))
    arguments = parser.parse_args()
    for name in arguments.models:
        measure(name, arguments.rounds)


def measure(name: str, rounds: int) -> None:
    model, shape, steps = MODELS[name]
    times: dict[str, list[float]] = {"alone": [], "verified": []}
    weights = set()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        script = folder / "train.py"
        batch = shape.strip("(").split(",")[0]
        script.write_text(PROGRAM.format(model=model, shape=shape, batch=batch, steps=steps))
        for _ in range(rounds):
            runs = [("alone", alone), ("verified", verified)]
            random.shuffle(runs)
            for kind, run in runs:
                run(script, folder / "result.json")
                result = json.loads((folder / "result.json").read_text())
                times[kind].append(result["ms"])
                weights.add(result["weights"])
    before, after = median(times["alone"]), median(times["verified"])
    same = "the same weights" if len(weights) == 1 else "DIFFERENT WEIGHTS"
    print(f"{name:<12} {before:8.3f} ms alone {after:8.3f} ms verified  ratio {after / before:.3f}  {same}")


if __name__ == "__main__":
    main()
