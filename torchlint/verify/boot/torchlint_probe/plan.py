"""The plan of the probe, which the launcher wrote into the folder of the verification."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

from torchlint_probe.claim import Claim


@dataclass(frozen=True)
class Plan:
    """`key` signs the evidence. `max_steps` is 0, and `deadline` endless, where there is no limit.

    The deadline is a time of `time.monotonic`, which all processes of a machine share.

    What the program computes is `compared` with what another run of it does. Without a finding, evidence is collected
    for these `rules`, and by these `checks`; spans of time if the run `is_traced`.
    """

    folder: str
    key: bytes
    root: str
    start: str
    files: list[str]
    claims: list[Claim]
    max_steps: int
    max_seconds: float
    deadline: float
    hard: bool
    compared: bool
    rules: list[str]
    checks: list[str]
    is_traced: bool

    @classmethod
    def read(cls, folder: str) -> Plan:
        with open(os.path.join(folder, "plan.json"), encoding="utf-8") as file:
            data = json.load(file)
        return cls(
            folder,
            bytes.fromhex(data["key"]),
            data["root"],
            data["start"],
            data["files"],
            [Claim.from_json(claim) for claim in data["claims"]],
            data["max_steps"],
            data["max_seconds"],
            data["deadline"] or float("inf"),
            data["stop"] == "hard",
            data["compared"],
            data["rules"],
            data["checks"],
            data["is_traced"],
        )
