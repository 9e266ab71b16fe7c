"""Reads what the probe wrote, and checks it like any untrusted input."""

from __future__ import annotations

import dataclasses
import hmac
import json
import typing
from pathlib import Path
from typing import Any, TypeVar

from torchlint.verify.evidence import Evidence, Member

FORMAT = 1
MAX_BYTES = 64_000_000

Record = TypeVar("Record")


class EvidenceError(Exception):
    """The file was not written by the probe of this verification; the message names it."""


def read(path: Path, key: bytes) -> Evidence:
    """The evidence in a file that was signed with `key`; raises `EvidenceError`."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise EvidenceError(f"{path}: evidence is larger than {MAX_BYTES:,} bytes")
        seal, newline, body = path.read_text("ascii").partition("\n")
    except (OSError, ValueError) as error:
        raise EvidenceError(f"{path}: evidence cannot be read: {error}") from None
    expected = hmac.new(key, body.removesuffix("\n").encode(), "sha256").hexdigest()
    if not newline or not body.endswith("\n") or not hmac.compare_digest(seal, expected):
        raise EvidenceError(f"{path}: evidence is truncated, or was not written by this verification")
    return from_json(json.loads(body), str(path))


def from_json(data: Any, name: str) -> Evidence:
    """Evidence from JSON values; raises `EvidenceError` with `name`."""
    try:
        evidence = _record(Evidence, data, "evidence")
        for item in evidence.members:
            _check_groups(item)
    except ValueError as error:
        raise EvidenceError(f"{name}: {error}") from None
    if evidence.format != FORMAT:
        raise EvidenceError(f"{name}: evidence has format {evidence.format}, this torchlint reads {FORMAT}")
    _check_sites(evidence, name)
    return evidence


def member(data: Any) -> Member:
    """A rank from JSON values; raises `ValueError`."""
    found = _record(Member, data, "member")
    _check_groups(found)
    return found


def _check_groups(member: Member) -> None:
    """Check that every group exists."""
    groups = [*(item.group for item in member.calls), *(item.group for item in member.waiting)]
    if not all(0 <= group < len(member.groups) for group in groups):
        raise ValueError("member refers to a group that it does not contain")


def _check_sites(evidence: Evidence, name: str) -> None:
    """Check that every site and file number exists."""
    sites = [
        *(item.site for item in evidence.backwards),
        *(item.site for item in evidence.forwards),
        *(site for item in evidence.cuts for site in (item.at, item.site)),
        *(item.site for item in evidence.retention),
        *(item.site for item in evidence.caches),
        *(item.site for item in (*evidence.sightings, *evidence.acquittals)),
        *(item.site for item in evidence.standing),
        evidence.error_site,
        *(item.site for item in evidence.raised),
        *(item.site for item in evidence.calls),
        *(item.site for item in evidence.replicas),
        *(item.site for item in evidence.batches),
        *(item.site for rank in evidence.members for item in rank.calls),
        *(item.site for rank in evidence.members for item in rank.waiting),
        *(site for site, *_ in evidence.anomaly.on_sites),
        *evidence.anomaly.off_sites,
        *evidence.anomaly.library_sites,
    ]
    for optimizer in evidence.optimizers:
        for counts in (
            optimizer.steps,
            optimizer.evaluations,
            optimizer.stale,
            optimizer.wiped,
            optimizer.hungry,
            optimizer.leftover,
        ):
            sites += [site for site, _ in counts]
        sites += [site for site, _ in (*optimizer.added, *optimizer.added_stale)]
    if not all(0 <= site < len(evidence.stacks) for site in sites):
        raise EvidenceError(f"{name}: evidence refers to a place that it does not contain")
    if not all(0 <= place < len(evidence.optimizers) for item in evidence.clearings for place, _ in item.optimizers):
        raise EvidenceError(f"{name}: evidence refers to an optimizer that it does not contain")
    for kept in evidence.keeps:
        lengths = {kept.visits, len(kept.backwards), len(kept.steps)}
        if len(lengths) > 1 or not all(len(life) == 5 and life[0] >= 0 for life in kept.lives):
            raise EvidenceError(f"{name}: evidence refers to visits that it does not contain")
    for stack in (*evidence.stacks, evidence.compiling):
        if not all(len(frame) == 2 and 0 <= frame[0] < len(evidence.files) for frame in stack):
            raise EvidenceError(f"{name}: evidence refers to a file that it does not contain")


def _record(kind: type[Record], data: Any, where: str) -> Record:
    """A dataclass from a JSON object with exactly its fields, each of its type; raises `ValueError`."""
    if not isinstance(data, dict):
        raise ValueError(f"{where} is not an object")
    types = typing.get_type_hints(kind)
    names = {item.name for item in dataclasses.fields(kind)}  # type: ignore[arg-type]
    if set(data) != names:
        odd = sorted(set(data) ^ names)
        raise ValueError(f"{where} has wrong keys: {', '.join(map(str, odd))}")
    return kind(**{name: _value(types[name], data[name], f"{where}.{name}") for name in names})


def _value(kind: Any, data: Any, where: str) -> Any:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is list:
        if not isinstance(data, list):
            raise ValueError(f"{where} is not an array")
        return [_value(arguments[0], item, where) for item in data]
    if origin is dict:
        if not isinstance(data, dict):
            raise ValueError(f"{where} is not an object")
        return {str(key): _value(arguments[1], item, where) for key, item in data.items()}
    if dataclasses.is_dataclass(kind):
        return _record(kind, data, where)  # type: ignore[arg-type]
    if kind is float and isinstance(data, (bool, int)):
        return float(data)
    if not isinstance(data, kind) or (kind is int and isinstance(data, bool)):
        raise ValueError(f"{where} is not of type {kind.__name__}")
    return data
