"""The folder of one verification: the probe's plan, its evidence, and a lock that shows the launcher is alive."""

from __future__ import annotations

import json
import os
import secrets
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from torchlint.verify.claims import Claim
from torchlint.verify.evidence import Evidence, Member
from torchlint.verify.evidence_file import EvidenceError, member, read

PLAN = "plan.json"
CONDITIONS = "conditions.json"


@dataclass(frozen=True)
class Limits:
    """The limits of a run: optimizer steps and seconds; 0 is no limit. `stop` is soft or hard."""

    max_steps: int = 40
    max_seconds: float = 120.0
    stop: str = "soft"


@dataclass(frozen=True)
class Conditions:
    """The conditions of compared runs: a common seed, and texts that run in place of files.

    The texts are by the real paths of the files. Runs with another `order` may have sets in another order.
    """

    seed: int
    texts: Mapping[str, bytes] = field(default_factory=dict)
    order: int = 0

    def variables(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Environment variables: the order of sets, and a pytest option that lets Python load test modules itself."""
        options = f"{environment.get('PYTEST_ADDOPTS', '')} --assert=plain".strip()
        return {
            "PYTHONHASHSEED": environment.get("PYTHONHASHSEED", str(self.seed + self.order)),
            "PYTEST_ADDOPTS": options,
        }


@dataclass(frozen=True)
class Watched:
    """The observations without a finding: for these rules, by these checks of the probe, and for a trace."""

    rules: Sequence[str]
    checks: Sequence[str]
    is_traced: bool = False


class FolderError(Exception):
    """The folder contains no verification; the message names it."""


class Folder:
    """A private folder. Its creator holds a lock in it until the end, or until it is killed."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="torchlint-verify-"))
        self._key = secrets.token_bytes(32)
        self._alive = _locked(self.path / "alive")

    @classmethod
    def left_behind(cls, path: Path) -> Folder:
        """The folder of a verification that was killed; raises `FolderError`."""
        folder = cls.__new__(cls)
        folder.path, folder._alive = path, None
        try:
            folder._key = bytes.fromhex(folder.plan["key"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise FolderError(f"{path} contains no verification: {error}") from None
        return folder

    @property
    def plan(self) -> Any:
        """The plan for the probe, as JSON values."""
        return json.loads((self.path / PLAN).read_text("utf-8"))

    def write_plan(
        self,
        claims: Sequence[Claim],
        root: Path,
        limits: Limits,
        conditions: Conditions | None = None,
        watched: Watched | None = None,
    ) -> None:
        """Write the plan for the probe."""
        files = list(dict.fromkeys(claim.file for claim in claims))
        plan = {
            "key": self._key.hex(),
            "root": str(root),
            "start": os.getcwd(),
            "files": files,
            "claims": _planned(claims),
            "max_steps": limits.max_steps,
            "max_seconds": limits.max_seconds,
            "deadline": time.monotonic() + limits.max_seconds if limits.max_seconds else 0,
            "stop": limits.stop,
            "compared": conditions is not None,
            "rules": [] if watched is None else list(watched.rules),
            "checks": [] if watched is None else list(watched.checks),
            "is_traced": watched is not None and watched.is_traced,
        }
        (self.path / PLAN).write_text(json.dumps(plan), "utf-8")
        if conditions is not None:
            self._write_conditions(conditions)

    def _write_conditions(self, conditions: Conditions) -> None:
        names = {path: f"text-{number}" for number, path in enumerate(conditions.texts)}
        for path, name in names.items():
            (self.path / name).write_bytes(conditions.texts[path])
        (self.path / CONDITIONS).write_text(json.dumps({"seed": conditions.seed, "texts": names}), "utf-8")

    def is_about(self, claims: Sequence[Claim]) -> bool:
        """Whether the plan was made for these claims."""
        return bool(self.plan["claims"] == json.loads(json.dumps(_planned(claims))))

    @property
    def steps(self) -> int:
        """The number of steps so far, in the busiest process."""
        return max(map(_count, self.path.glob("steps-*")), default=0)

    def members(self) -> list[Member]:
        """The ranks of the program, as they have reported in the last seconds."""
        return [found for path in self.path.glob("rank-*.json") if (found := _member(path)) is not None]

    def booted(self) -> list[int]:
        """The processes that have found the boot hook."""
        return sorted(int(path.name.partition("-")[2]) for path in self.path.glob("boot-*"))

    def replaced(self, conditions: Conditions) -> frozenset[str]:
        """The files in whose place another text ran."""
        return frozenset(
            path for number, path in enumerate(conditions.texts) if (self.path / f"loaded-text-{number}").exists()
        )

    def evidence(self) -> tuple[list[Evidence], list[str]]:
        """The evidence of the processes, training ones first, and the problems with the others.

        If some processes train, others without a flagged line that ran are left out. A probe that could not start may
        have observed only a part, so it does not count.
        """
        failed = self._failed()
        found, problems = [], [f"The probe could not start: {error}." for error in sorted(set(failed.values()))]
        for path in sorted(self.path.glob("evidence-*.json")):
            if path.stem.removeprefix("evidence-") in failed:
                continue
            try:
                evidence = read(path, self._key)
            except EvidenceError as error:
                problems.append(str(error))
                continue
            found.append(evidence)
        found.sort(key=lambda evidence: not evidence.trains)
        busy = [evidence for evidence in found if evidence.has_anything]
        return (busy if any(evidence.trains for evidence in found) else found), problems

    def _failed(self) -> dict[str, str]:
        """The processes whose probe could not start, with the error."""
        paths = self.path.glob("failed-*")
        return {path.name.partition("-")[2]: path.read_text("utf-8", "replace")[:300] for path in paths}

    def release(self) -> None:
        """Release the lock: probes that still run end within a second or two."""
        if self._alive is not None:
            self._alive.close()
            self._alive = None

    def remove(self) -> None:
        """Delete everything."""
        import shutil

        self.release()
        shutil.rmtree(self.path, ignore_errors=True)


def _count(path: Path) -> int:
    """The number in a file that may be incomplete."""
    try:
        return int(path.read_text("ascii"))
    except (OSError, ValueError):
        return 0


def _member(path: Path) -> Member | None:
    """The rank in a file; None if it is not a report of a rank."""
    try:
        return member(json.loads(path.read_text("ascii")))
    except (OSError, ValueError, RecursionError):
        return None


def _planned(claims: Sequence[Claim]) -> list[dict[str, Any]]:
    files = list(dict.fromkeys(claim.file for claim in claims))
    return [claim.plan(files.index(claim.file)) for claim in claims]


def _locked(path: Path) -> IO[bytes] | None:
    file = path.open("wb")
    try:
        import fcntl
    except ImportError:
        return file
    fcntl.flock(file, fcntl.LOCK_EX)
    return file
