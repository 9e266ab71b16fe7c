"""Programs that end badly, never, elsewhere or in several processes: what was seen is kept, nothing is left over."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.needs("torch"), pytest.mark.halved]

Verify = Callable[..., Any]
Start = Callable[..., "subprocess.Popen[str]"]

posix = pytest.mark.skipif(os.name != "posix", reason="signals and process groups are POSIX")


BROKEN_PROBE = """
import torchlint_probe

install = torchlint_probe.install


def fail(folder):
    install(folder)
    raise RuntimeError("a part is missing")


torchlint_probe.install = fail
"""
"""Most hooks are in place when it fails, and see the program train."""


def alive(marker: str) -> list[int]:
    """The processes that have `marker` in their command line or environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            known = process.joinpath("environ").read_bytes() + process.joinpath("cmdline").read_bytes()
        except OSError:
            continue
        if marker.encode() in known and int(process.name) != os.getpid():
            found.append(int(process.name))
    return found


def wait_until(condition: object, seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.05)


def test_a_crash_after_evidence_still_confirms(verify: Verify, training: str) -> None:
    done = verify(training + "train(10)\nraise ValueError('the disk is full')\n")
    assert (done.code, done.verdicts) == (1, ["confirmed"])
    assert done.report["program"]["exit_code"] == 1
    assert "ValueError: the disk is full" in " ".join(done.report["notes"])


def test_a_crash_before_evidence_is_said(verify: Verify, training: str) -> None:
    done = verify(training + "import no_such_module\ntrain(10)\n")
    assert (done.code, done.verdicts) == (4, ["not-reached"])
    assert "failed before torchlint" in done.report["notes"][0]


def test_an_endless_loop_without_a_step_is_ended(verify: Verify, training: str) -> None:
    """With what it has started, in time, and although it does not listen."""
    deaf = "import signal, subprocess, sys, time\nfor name in ('SIGINT', 'SIGTERM'):\n"
    deaf += "    signal.signal(getattr(signal, name), signal.SIG_IGN)\n"
    deaf += "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'], start_new_session=True)\n"
    before = time.monotonic()
    done = verify(training + "train(5)\n" + deaf + "while True:\n    time.sleep(0.01)\n", "--max-seconds", "25")
    assert (done.code, done.verdicts) == (1, ["confirmed"])
    assert done.report["program"]["seconds"] < 25 + 3
    assert done.report["program"]["exit_code"] is None
    assert done.report["program"]["steps"] == 5
    assert any("did not end within 25 seconds" in note for note in done.report["notes"])
    assert time.monotonic() - before < 70


def test_an_endless_training_is_stopped_at_its_budget(verify: Verify, training: str) -> None:
    done = verify(training + "train(10**9)\n", "--max-steps", "25")
    assert (done.code, done.verdicts) == (1, ["confirmed"])
    assert done.report["program"]["steps"] == 25
    assert done.report["processes"][0]["stopped"] == "25 steps"


def test_code_behind_the_last_step_is_not_reached_and_more_steps_are_advised(verify: Verify, training: str) -> None:
    loop = "for _ in range(9):\n    model(torch.ones(2, 4)).sum().backward()\n    other.step()\n"
    program = training + "train(20)\nother = torch.optim.SGD(model.parameters(), 0.1)\n" + loop
    done = verify(program, "--max-steps", "10")
    assert sorted(done.verdicts) == ["confirmed", "not-reached"]
    missed = next(item for item in done.report["findings"] if item["verdict"] == "not-reached")
    assert missed["reason"] == "the run was stopped before the flagged code ran"
    assert missed["advice"] == "run more steps, for example with --max-steps 200"


@pytest.mark.parametrize("caught", ["Exception", "BaseException"])
def test_swallowed_exceptions_do_not_keep_it_running(verify: Verify, caught: str, training: str) -> None:
    loop = f"while True:\n    try:\n        train(1)\n    except {caught}:\n        continue\n"
    done = verify(training + loop, "--max-steps", "12")
    assert (done.code, done.verdicts) == (1, ["confirmed"])
    assert done.report["program"]["steps"] <= 12 + 4


def test_cleaning_up_runs_at_a_soft_stop_and_not_at_a_hard_one(verify: Verify, tmp_path: Path, training: str) -> None:
    program = training + "try:\n    train(99)\nfinally:\n    open('cleaned', 'w').close()\n"
    assert verify(program, "--max-steps", "8", "--stop", "hard").verdicts == ["confirmed"]
    assert not (tmp_path / "cleaned").exists()
    assert verify(program, "--max-steps", "8").verdicts == ["confirmed"]
    assert (tmp_path / "cleaned").exists()


def test_os_exit_keeps_the_evidence(verify: Verify, training: str) -> None:
    done = verify("import os\n" + training + "train(10)\nos._exit(7)\n")
    assert (done.code, done.verdicts) == (1, ["confirmed"])
    assert done.report["program"]["exit_code"] == 7


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_loader_workers_write_no_evidence(verify: Verify, method: str) -> None:
    program = f"""\
import torch
from torch.utils.data import DataLoader, TensorDataset

def main():
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = TensorDataset(torch.randn(64, 4))
    for epoch in range(2):
        for (x,) in DataLoader(data, batch_size=8, num_workers=2, multiprocessing_context="{method}"):
            loss = model(x).pow(2).mean()
            loss.backward()
            optimizer.step()

if __name__ == "__main__":
    main()
"""
    done = verify(program)
    assert (done.code, done.verdicts) == (1, ["confirmed"])
    assert len(done.report["processes"]) == 1
    assert done.report["program"]["exit_code"] == 0


def test_another_folder_and_threads(verify: Verify, training: str) -> None:
    program = "import os, threading\n" + training
    program += "os.chdir(os.path.expanduser('/'))\nthread = threading.Thread(target=train, args=(10,))\n"
    done = verify(program + "thread.start()\nthread.join()\n")
    assert (done.code, done.verdicts) == (1, ["confirmed"])


def test_a_thread_that_is_stopped_does_not_hang_the_program(verify: Verify, training: str) -> None:
    program = "import threading\n" + training + "thread = threading.Thread(target=train, args=(10**9,))\n"
    done = verify(program + "thread.start()\nthread.join()\n", "--max-steps", "9")
    assert (done.code, done.verdicts) == (1, ["confirmed"])
    assert done.report["program"]["ended"] == "stopped after 9 steps"


def test_two_ranks(verify: Verify, training: str) -> None:
    program = "import torch.distributed as dist\ndist.init_process_group('gloo')\n"
    program += training.replace(
        "model = torch.nn.Linear(4, 1)", "model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))"
    )
    program += "train(10**6)\n"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "train.py"]
    done = verify(program, "--max-steps", "15", command=command)
    assert (done.code, done.verdicts) == (1, ["confirmed"])
    assert sorted(process["rank"] for process in done.report["processes"]) == ["0", "1"]
    assert {process["steps"] for process in done.report["processes"]} == {15}


def test_pytest_is_ended_its_own_way(verify: Verify, tmp_path: Path, training: str) -> None:
    pytest_program = training + "\n\ndef test_training():\n    train(10**6)\n"
    (tmp_path / "test_training.py").write_text(pytest_program)
    done = verify("", "--max-steps", "10", command=[sys.executable, "-m", "pytest", "-p", "no:cacheprovider"])
    assert (done.code, done.verdicts) == (1, ["confirmed"])
    assert done.report["program"]["ended"] == "stopped after 10 steps"
    assert "torchlint verify has seen enough" in done.errors


def test_standard_input_and_much_output(verify: Verify, training: str) -> None:
    program = "import sys\nsteps = int(input())\n" + training
    program += "train(steps)\nsys.stdout.write('x' * 5_000_000)\n"
    done = verify(program, text="12\n")
    assert (done.code, done.verdicts) == (1, ["confirmed"])
    assert done.report["program"]["steps"] == 12
    assert done.errors.count("x") >= 5_000_000


def test_isolated_python_is_said(verify: Verify, training: str) -> None:
    done = verify(training + "train(10)\n", command=[sys.executable, "-I", "train.py"])
    assert (done.code, done.verdicts) == (3, ["not-reached"])
    assert "probe never loaded" in done.report["notes"][0]


def test_a_program_without_torch_is_said(verify: Verify, tmp_path: Path, training: str) -> None:
    (tmp_path / "other.py").write_text("print('nothing to see')")
    done = verify(training, command=[sys.executable, "other.py"])
    assert done.code == 3
    assert "did not import torch" in done.report["notes"][0]


def test_a_probe_that_cannot_start_proves_nothing(verify: Verify, tmp_path: Path, training: str) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(BROKEN_PROBE)
    done = verify(training + "train(10)\n", environment={"PYTHONPATH": str(tmp_path / "site")})
    assert (done.code, done.verdicts) == (3, ["inconclusive"])
    assert done.report["notes"] == ["The probe could not start: RuntimeError('a part is missing')."]


def test_its_own_sitecustomize_still_runs(verify: Verify, tmp_path: Path, training: str) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text("import os\nos.environ['SEEN'] = 'yes'\n")
    program = "import os\nassert os.environ['SEEN'] == 'yes'\n" + training + "train(10)\n"
    done = verify(program, environment={"PYTHONPATH": str(tmp_path / "site")})
    assert (done.code, done.verdicts) == (1, ["confirmed"])


def test_two_at_once_do_not_meet(tmp_path: Path, training: str, start: Start, finish: Verify) -> None:
    runs = []
    for number, steps in enumerate((6, 9)):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "train.py").write_text(training + f"train({steps})\n")
        runs.append(start(folder, [sys.executable, "train.py"]))
    done = [finish(run) for run in runs]
    assert [item.report["program"]["steps"] for item in done] == [6, 9]
    assert [item.verdicts for item in done] == [["confirmed"]] * 2


@posix
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_launcher_ends_the_program_and_reports(
    tmp_path: Path, number: signal.Signals, training: str, start: Start, finish: Verify
) -> None:
    marker = f"torchlint-marker-{os.getpid()}-{number}"
    (tmp_path / "train.py").write_text(training + "train(8)\nopen('trained', 'w').close()\nwhile True:\n    pass\n")
    run = start(tmp_path, [sys.executable, "train.py", marker])
    wait_until((tmp_path / "trained").exists, 60)
    run.send_signal(number)
    done = finish(run)
    assert (done.code, done.verdicts) == (128 + number, ["confirmed"])
    assert f"interrupted by {number.name}" in done.report["notes"][0]
    assert not alive(marker)


@posix
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_nothing_outlives_a_launcher_that_is_killed(tmp_path: Path, training: str, start: Start) -> None:
    marker = f"torchlint-marker-{os.getpid()}-kill"
    program = "import subprocess, sys\n" + training + "open('trained', 'w').close()\ntrain(10**9)\n"
    child = (
        "import subprocess, sys\nsubprocess.run([sys.executable, 'train.py', sys.argv[1]], start_new_session=True)\n"
    )
    (tmp_path / "train.py").write_text(program)
    (tmp_path / "launcher.py").write_text(child)
    run = start(tmp_path, [sys.executable, "launcher.py", marker], "--max-steps", "0", "--max-seconds", "0")
    wait_until((tmp_path / "trained").exists, 60)
    time.sleep(3)  # evidence is written once a second
    run.kill()
    _, errors = run.communicate()
    wait_until(lambda: not alive(marker), 15)
    folder = re.search(r"writing evidence to (\S+);", errors)
    assert folder is not None
    done = subprocess.run(
        [sys.executable, "-m", "torchlint", "verify", "--format", "json", "--evidence", folder[1]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stderr
    report = json.loads(done.stdout)
    assert [finding["verdict"] for finding in report["findings"]] == ["confirmed"]
    assert "was killed before its report" in report["notes"][0]
    shutil.rmtree(folder[1])


@posix
def test_control_c_of_the_program_is_an_interruption(
    tmp_path: Path, training: str, start: Start, finish: Verify
) -> None:
    (tmp_path / "train.py").write_text(
        training + "import os, signal\ntrain(8)\nos.kill(os.getpid(), signal.SIGINT)\ninput()\n"
    )
    done = finish(start(tmp_path, [sys.executable, "train.py"]))
    assert done.verdicts == ["confirmed"]
    assert "KeyboardInterrupt" in " ".join(done.report["notes"]) or "SIGINT" in " ".join(done.report["notes"])


def test_consent_is_needed_without_a_terminal(tmp_path: Path, training: str) -> None:
    (tmp_path / "train.py").write_text(training + "open('ran', 'w')\n")
    command = [sys.executable, "-m", "torchlint", "verify", "--", sys.executable, "train.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 2
    assert "--yes" in done.stderr
    assert not (tmp_path / "ran").exists()


def test_a_check_does_not_choose_between_two_findings_of_a_line(verify: Verify) -> None:
    """The probability becomes 0, and its complement never does: a check by lines cannot say which logarithm it was."""
    program = (
        "import torch\n\nlayer = torch.nn.Linear(4, 1)\noptimizer = torch.optim.SGD(layer.parameters(), lr=0.1)\n"
        "for _ in range(4):\n    p = torch.sigmoid(layer(torch.full((8, 4), -1e4)).abs().neg() - 200)\n"
        "    loss = -(torch.log(p) + 0 * torch.log(1 - p)).mean()\n"
        "    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()\n"
    )
    done = verify(program)
    logarithms = [item for item in done.report["findings"] if item["name"] == "log-of-softmax"]
    assert [item["verdict"] for item in logarithms] == ["inconclusive"] * 2
    assert all("the run cannot tell apart the 2 findings" in item["reason"] for item in logarithms)


WINDOW = """\
import torch
from torch.nn.utils import clip_grad_norm_

torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
optimizer.zero_grad()
for i in range(60):
    x = torch.randn(8, 4) * 10
    ((model(x) - x.sum(1, keepdim=True)).pow(2).mean() / 4).backward()
    clip_grad_norm_(model.parameters(), 0.5)
    if (i + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
"""


def test_a_clipping_of_each_micro_batch_is_not_refuted_by_the_last_one(verify: Verify) -> None:
    done = verify(WINDOW)
    assert [(item["name"], item["verdict"]) for item in done.report["findings"]] == [("clip-outside-step", "confirmed")]
