"""A diff leads from the old text to the new one, and says little where little differs."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from torchlint.files.line_diff import opcodes, unified


def texts(chance: random.Random) -> tuple[list[str], list[str]]:
    """Two texts of few different lines, one made of the other."""
    kinds = chance.choice((1, 2, 5, 50))
    old = [f"x{chance.randint(0, kinds)}" for _ in range(chance.randint(0, 40))]
    new = [line for line in old if chance.random() < 0.9]
    for _ in range(chance.randint(0, 4)):
        new.insert(chance.randint(0, len(new)), f"x{chance.randint(0, kinds + 3)}")
    return old, new


def test_opcodes_lead_from_one_to_the_other() -> None:
    chance = random.Random(5)
    for _ in range(300):
        old, new = texts(chance)
        made: list[str] = []
        end_old = end_new = 0
        for tag, start_old, stop_old, start_new, stop_new in opcodes(old, new):
            assert (start_old, start_new) == (end_old, end_new) and (stop_old, stop_new) > (end_old, end_new)
            end_old, end_new = stop_old, stop_new
            made += old[start_old:stop_old] if tag == "equal" else new[start_new:stop_new]
        assert (end_old, end_new, made) == (len(old), len(new), new)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_git_understands_a_diff(tmp_path: Path) -> None:
    chance = random.Random(6)
    files = [texts(chance) for _ in range(60)]
    patch: list[str] = []
    for number, (old, new) in enumerate(files):
        (tmp_path / str(number)).write_text("".join(f"{line}\n" for line in [*old, "end"]))
        patch += unified([*old, "end"], [*new, "end"], str(number))
    (tmp_path / "patch").write_text("".join(f"{line}\n" for line in patch))
    subprocess.run(["git", "apply", "-p0", "patch"], check=True, cwd=tmp_path)
    for number, (_, new) in enumerate(files):
        assert (tmp_path / str(number)).read_text().split() == [*new, "end"]


def test_only_what_differs_is_said() -> None:
    old = [f"line {number}" for number in range(30)]
    new = [*old[:5], "other", *old[6:20], "more", *old[20:]]
    assert list(unified(old, old, "a")) == []
    assert list(unified(old, new, "a")) == [
        *("--- a", "+++ a", "@@ -3,7 +3,7 @@", " line 2", " line 3", " line 4", "-line 5", "+other"),
        *(" line 6", " line 7", " line 8", "@@ -18,6 +18,7 @@", " line 17", " line 18", " line 19", "+more"),
        *(" line 20", " line 21", " line 22"),
    ]
