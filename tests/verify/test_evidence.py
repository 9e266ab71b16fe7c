"""Evidence is untrusted input: what was cut off, changed or made up is refused by name."""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from torchlint.verify.evidence_file import EvidenceError, read

KEY = b"k" * 32
SIGHTING = {"check": "dead-units", "site": 9, "message": "", "numbers": {}, "first_step": -1, "advice": ""}


def body() -> dict[str, Any]:
    process = {"pid": 1, "rank": "", "python": "3.12", "torch": "2.13", "device": "cpu", "compiled": 0}
    anomaly = {
        "on_sites": [],
        "off_sites": [],
        "library_sites": [],
        "steps_on": 0,
        "steps_off": 0,
        "on_ms": [],
        "off_ms": [],
    }
    backward = {"site": 1, "count": 2, "retained": 0, "errors": {}, "first_error": 0}
    lists: tuple[str, ...] = ("optimizers", "forwards", "reads", "cuts", "retention", "caches", "reached")
    lists += (
        "keeps",
        "clearings",
        "changes",
        "observed",
        "sightings",
        "acquittals",
        "calls",
        "replicas",
        "batches",
        "members",
        "spans",
        "standing",
    )
    empty: dict[str, Any] = {name: [] for name in lists}
    return {
        "format": 1,
        "process": process,
        "status": "finished",
        "stopped": "",
        "error": "",
        "compiling": [],
        "trouble": "",
        "seconds": 1,
        "error_site": 1,
        "raised": [{"site": 1, "error": "ValueError: x", "count": 2, "is_late": False}],
        "idle": 0,
        "steps": 2,
        "files": ["/a.py"],
        "stacks": [[], [[0, 3]]],
        "backwards": [backward],
        "anomaly": anomaly,
        "unwatched": "",
        "stride": 1,
        "series": [{"step": 1, "ms": 0.5, "anomaly": False}],
        **empty,
    }


def written(folder: Path, data: Any, key: bytes = KEY) -> Path:
    text = json.dumps(data)
    path = folder / "evidence-1.json"
    path.write_text(f"{hmac.new(key, text.encode(), 'sha256').hexdigest()}\n{text}\n")
    return path


def test_evidence_is_read(tmp_path: Path) -> None:
    evidence = read(written(tmp_path, body()), KEY)
    assert evidence.is_at(1, "/a.py", [(3, 4)])
    assert not evidence.is_at(1, "/a.py", [(4, 9)])
    assert not evidence.is_at(1, "/b.py", [(3, 4)])


@pytest.mark.parametrize("damage", [lambda text: text[:-40], lambda text: "", lambda text: text.replace("2", "3", 1)])
def test_truncated_or_changed_evidence_is_refused_by_name(tmp_path: Path, damage: Callable[[str], str]) -> None:
    path = written(tmp_path, body())
    path.write_text(damage(path.read_text()))
    with pytest.raises(EvidenceError, match=r"evidence-1\.json: evidence is truncated, or was not written by"):
        read(path, KEY)


def test_evidence_of_another_verification_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EvidenceError, match="was not written by this verification"):
        read(written(tmp_path, body(), b"other" * 8), KEY)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "evidence-1.json"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(EvidenceError, match=r"evidence-1\.json: evidence cannot be read"):
        read(path, KEY)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": "many"}, "evidence.steps is not of type int"),
        ({"steps": True}, "evidence.steps is not of type int"),
        ({"stopped": None}, "evidence.stopped is not of type str"),
        ({"process": {}}, "evidence.process has wrong keys: compiled, device"),
        ({"series": [{"ms": "fast"}]}, "evidence.series is not of type float"),
        ({"backwards": {}}, "evidence.backwards is not an array"),
        ({"extra": 1}, "evidence has wrong keys: extra"),
        ({"format": 99}, "evidence has format 99, this torchlint reads 1"),
        ({"stacks": [[]]}, "refers to a place that it does not contain"),
        ({"sightings": [SIGHTING]}, "refers to a place that it does not contain"),
        ({"files": []}, "refers to a file that it does not contain"),
        ({"stacks": [[], [[0]]]}, "refers to a file that it does not contain"),
    ],
)
def test_signed_nonsense_is_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(EvidenceError, match=message):
        read(written(tmp_path, {**body(), **change}), KEY)
