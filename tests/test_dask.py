"""A Dask cluster finds what this machine finds, and says so when it cannot."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from torchlint.cli import cli

needs_dask = pytest.mark.skipif(find_spec("distributed") is None, reason="Dask is not installed")

WORKER = """\
import os, sys, time
from torchlint.engine import examination
from torchlint.run.cache import environment

examine, version = examination.examine, sys.argv.pop(1)

def slow(*arguments, **options):
    with open("working-" + str(os.getpid()), "w"):
        pass
    time.sleep(0.02)
    return examine(*arguments, **options)

if __name__ == "__main__":
    examination.examine = slow
    if version:
        environment.environment()["torchlint"] = version
    from distributed.cli.dask_worker import main
    main()
"""
"""A worker in one process that takes its time, and may claim to be of another version."""


class Cluster:
    """A scheduler and its workers, in processes of their own with a working folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self.port = free_port()
        options = ("--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard", "--no-show", "--no-jupyter")
        self._start("-m", "distributed.cli.dask_scheduler", *options)
        (folder / "worker.txt").write_text(WORKER)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def add_worker(self, version: str = "") -> subprocess.Popen[bytes]:
        options = ("--no-nanny", "--no-dashboard", "--nthreads", "1", "--host", "127.0.0.1", "--death-timeout", "20")
        return self._start("worker.txt", version, f"tcp://{self.address}", *options)

    def wait(self, workers: int) -> None:
        from distributed import Client

        with Client(f"tcp://{self.address}", timeout=20, set_as_default=False) as client:
            client.wait_for_workers(workers, timeout=20)

    def is_working(self, worker: subprocess.Popen[bytes]) -> bool:
        return (self.folder / f"working-{worker.pid}").exists()

    def close(self) -> None:
        for process in reversed(self._processes):
            process.kill()
            process.wait()

    def _start(self, *arguments: str) -> subprocess.Popen[bytes]:
        command = (sys.executable, *arguments)
        log = (self.folder / "log.txt").open("ab")
        with log:
            process = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log)
        self._processes.append(process)
        return process


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    found = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        yield found
    finally:
        found.close()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    bad = "import torch\nfor x in y:\n    x.backward()\n    torch.cuda.empty_cache()\n"
    for number in range(80):
        (tmp_path / f"m{number}.py").write_text(bad * (number % 2) + f"x = {number}\n")
    (tmp_path / "link.py").symlink_to("nowhere")
    (tmp_path / "broken.py").write_text("import torch\ntorch.cuda.empty_cache(\n")
    return tmp_path


def torchlint(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["--no-cache", *arguments])


@pytest.mark.slow
@needs_dask
def test_a_cluster_finds_the_same_though_a_worker_dies(folder: Path, cluster: Cluster) -> None:
    workers = [cluster.add_worker(), cluster.add_worker()]
    cluster.wait(2)
    expected = torchlint("--jobs", "1")
    command = (sys.executable, "-m", "torchlint", "--no-cache", "--executor", f"dask://{cluster.address}")
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdout=pipe, stderr=pipe, encoding="utf-8", cwd=folder)
    end = time.monotonic() + 20
    while not cluster.is_working(workers[0]) and time.monotonic() < end:
        time.sleep(0.01)
    workers[0].kill()
    assert process.communicate(timeout=60) == (expected.stdout, "")
    assert process.returncode == expected.exit_code == 1
    assert cluster.is_working(workers[1])


@pytest.mark.slow
@needs_dask
def test_who_cannot_do_the_work_is_an_error(folder: Path, cluster: Cluster) -> None:
    cluster.add_worker(version="0.0.1")
    cluster.wait(1)
    result = torchlint("--executor", f"dask://{cluster.address}")
    assert result.exit_code == 2
    assert re.search(r"the worker tcp://\S+ has another torchlint: torchlint: 0\.0\.1 instead of \d", result.stderr)


@pytest.mark.slow
@needs_dask
def test_nobody_there_is_an_error(folder: Path) -> None:
    started = time.monotonic()
    result = torchlint("--executor", f"dask://127.0.0.1:{free_port()}")
    assert result.exit_code == 2
    assert "no Dask scheduler answers at dask://127.0.0.1:" in result.stderr
    assert time.monotonic() - started < 15


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--executor", "ray://a:1"), "unknown executor `ray://a:1`: it has the form dask://HOST:PORT"),
        (("--executor", "dask://a:1", "--jobs", "2"), "leave one out"),
    ],
)
def test_wrong_usage(folder: Path, arguments: tuple[str, ...], message: str) -> None:
    result = torchlint(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_dask_that_is_not_installed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    result = torchlint("--executor", "dask://a:1")
    assert result.exit_code == 2
    assert "needs Dask: pip install 'torchlint[dask]'" in result.stderr
