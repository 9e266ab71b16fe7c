"""Only changed files are linted again, and no damage to the cache harms a run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from torchlint import Finding, Rule, Selection, SourceFile
from torchlint.cli import cli
from torchlint.engine import examination, fixer
from torchlint.finding import Confidence, Edit, Fix, Position, Related, Safety, Severity, Span
from torchlint.run.cache import environment, index
from torchlint.run.cache import folder as folders
from torchlint.run.cache.index import MAX_DAYS, Entry, Index
from torchlint.run.cache.serialize import finding_of, plain

LONG_AGO = 1_600_000_000
FILES = {"bad.py": "bad()\n", "good.py": "good()  # not bad\n", "sub/bad.py": "x = bad()\n", "syntax.py": "bad(\n"}


@pytest.fixture
def linted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of the files that are linted, from now on."""
    seen: list[str] = []
    examine = examination.examine

    def counting(source: SourceFile, selection: Selection, **options: Any) -> examination.Examination:
        seen.append(source.path)
        return examine(source, selection, **options)

    monkeypatch.setattr(examination, "examine", counting)
    monkeypatch.setattr(fixer, "examine", counting)
    return seen


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad_call: type[Rule]) -> Path:
    """The working folder, with files that nobody has touched for a while."""
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    settle(monkeypatch)
    return tmp_path


def settle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let time pass, so that what has been written is not suspiciously new."""
    later = time.time_ns() + 10**10
    monkeypatch.setattr(time, "time_ns", lambda: later)


def torchlint(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["--jobs", "1", *arguments])


def clear() -> Result:
    return CliRunner().invoke(cli, ["cache", "clear"])


def output(*arguments: str) -> str:
    result = torchlint(*arguments)
    assert result.stderr == ""
    return result.stdout


def index_file(cache_folder: Path) -> Path:
    (file,) = cache_folder.glob("*.json")
    return file


def test_nothing_is_linted_twice(folder: Path, linted: list[str], cache_folder: Path) -> None:
    cold = output()
    assert sorted(linted) == sorted(FILES)
    assert "3 findings (3 errors) in 3 of 4 files; 2 files use PyTorch." in cold
    assert output() == output("./bad.py", ".") == cold
    assert output("--output-format", "json") == output("--output-format", "json", "--no-cache")
    assert len(linted) == 2 * len(FILES)
    assert (cache_folder / "CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55\n")
    assert sorted(os.listdir(folder)) == ["bad.py", "good.py", "sub", "syntax.py"]


def test_without_a_cache_there_is_none(folder: Path, linted: list[str], cache_folder: Path) -> None:
    assert output("--no-cache") == output("--no-cache")
    assert len(linted) == 2 * len(FILES)
    assert not cache_folder.exists()


def test_what_has_changed_is_linted(folder: Path, linted: list[str]) -> None:
    output()
    linted.clear()
    (folder / "good.py").write_text("bad()\n")
    assert "good.py:1:1" in output()
    assert linted == ["good.py"]
    (folder / "bad.py").unlink()
    (folder / "new.py").write_text("bad()\n")
    assert "in 4 of 4 files" in output()
    assert linted == ["good.py", "new.py"]


def test_a_change_that_size_and_time_do_not_show(folder: Path, linted: list[str]) -> None:
    path = folder / "good.py"
    os.utime(path, (LONG_AGO, LONG_AGO))
    output()
    time.sleep(0.02)  # a tick of the clock by which files are changed
    path.write_text(FILES["good.py"].replace("good()", "bad( )"))
    os.utime(path, (LONG_AGO, LONG_AGO))
    assert "good.py:1:1" in output()
    assert linted[len(FILES) :] == ["good.py"]


def test_a_change_within_one_tick_of_the_clock(
    folder: Path, linted: list[str], monkeypatch: pytest.MonkeyPatch, cache_folder: Path
) -> None:
    """A file as new as the cache is compared by content, until a later run finds it settled."""
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("TORCHLINT_CACHE_DIR", str(cache_folder))
    (folder / "new.py").write_text("# none\n")
    assert "no.py" not in torchlint("--select", "syntax-error").stdout
    _, entries = json.loads(index_file(cache_folder).read_bytes().split(b"\n")[1])
    assert entries["new.py"][0] == []
    settle(monkeypatch)
    torchlint("--select", "syntax-error")
    _, entries = json.loads(index_file(cache_folder).read_bytes().split(b"\n")[1])
    assert entries["new.py"][0][0] == 7


def test_the_same_content_is_known_after_a_checkout(folder: Path, linted: list[str]) -> None:
    cold = output()
    for name, text in FILES.items():
        (folder / name).unlink()
        (folder / name).write_text(text)
        os.utime(folder / name)
    assert output() == cold
    assert len(linted) == len(FILES)


def test_a_project_is_known_by_its_folder(folder: Path, linted: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "torchlint.toml").touch()
    cold = output(".", str(folder / "sub"))
    monkeypatch.chdir(folder / "sub")
    assert "bad.py:1:5" in output("bad.py")
    assert len(linted) == len(FILES)
    monkeypatch.chdir(folder.parent)
    folder.rename(folder.with_name("moved"))
    monkeypatch.chdir(folder.with_name("moved"))
    assert output() == cold
    assert len(linted) == 2 * len(FILES)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "[rules.bad-call]\nnames = ['good']"),
        ("", "ignore = ['bad-call']"),
        ("per-file-ignores = {'bad.py' = ['XX001']}", "per-file-ignores = {'sub/*' = ['XX001']}"),
    ],
)
def test_other_settings_are_another_matter(folder: Path, before: str, after: str) -> None:
    configuration = folder / "torchlint.toml"
    found = []
    for text in (before, after) * 2:
        configuration.write_text(text)
        found.append(output())
        assert found[-1] == output("--no-cache")
    assert found[0] == found[2] != found[1] == found[3]


def test_another_torchlint_or_plugin_knows_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = environment.key_of("", "")
    assert environment.key_of("", "other") != usual
    monkeypatch.setattr(environment, "environment", lambda: {"torchlint": "0"})
    assert environment.key_of("", "") != usual
    plugin = tmp_path / "a_plugin"
    plugin.mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    digests = []
    for text in ("", "x = 1", ""):
        (plugin / "__init__.py").write_text(text)
        digests.append(environment._sources("a_plugin"))
    assert digests[0] == digests[2] != digests[1]
    assert environment._sources("no_such_plugin") == environment._sources("no_such.plugin") == "missing"


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[: len(data) // 2],
        lambda data: data.replace(b"bad-call", b"mad-call"),
        lambda data: b"\x00\xff not ours",
        lambda data: b'{"bad.py": 3}\n{}',
    ],
    ids=["empty", "truncated", "corrupt", "foreign", "json"],
)
def test_a_broken_cache_is_none(
    folder: Path, linted: list[str], damage: Callable[[bytes], bytes], cache_folder: Path
) -> None:
    cold = output()
    file = index_file(cache_folder)
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    assert output() == output() == cold
    assert len(linted) == 2 * len(FILES)
    assert file.read_bytes() == whole


@pytest.mark.parametrize(
    "other",
    [
        lambda modules, entries: [modules, {name: values[:-1] for name, values in entries.items()}],
        lambda modules, entries: [modules, {name: [*values, []] for name, values in entries.items()}],
        lambda modules, entries: entries,
        lambda modules, entries: [modules, {name: [*values[:5], 1, values[6]] for name, values in entries.items()}],
        lambda modules, entries: [
            modules,
            {name: [*values[:2], [{"rule": "x"}], *values[3:]] for name, values in entries.items()},
        ],
    ],
    ids=["fewer fields", "more fields", "no modules", "a plain number", "other findings"],
)
def test_an_index_of_another_version_is_none(
    folder: Path, linted: list[str], other: Callable[[Any, Any], Any], cache_folder: Path
) -> None:
    """Its digest is right, as that version has written it, but its entries have another form."""
    cold = output()
    file = index_file(cache_folder)
    whole = file.read_bytes()
    body = json.dumps(other(*json.loads(whole.partition(b"\n")[2])), separators=(",", ":")).encode()
    file.write_bytes(index._head(body, b"") + b"\n" + body)
    assert output() == output() == cold
    assert len(linted) == 2 * len(FILES)
    assert file.read_bytes() == whole


@pytest.mark.parametrize("is_replaced", [False, True], ids=["written", "replaced"])
def test_a_file_that_changes_while_it_is_read(
    folder: Path, linted: list[str], monkeypatch: pytest.MonkeyPatch, is_replaced: bool
) -> None:
    """The run reports one of its two contents, and the next one the content that is there."""
    read = SourceFile.read
    path = folder / "good.py"

    def changing(where: Path, shown: str) -> SourceFile:
        source = read(where, shown)
        if where.name == "good.py" and b"good" in source.data:
            target = folder / "new.txt" if is_replaced else path
            target.write_text("bad()   # not bad\n")  # of the same size
            os.utime(target, (LONG_AGO, LONG_AGO))
            if is_replaced:
                os.replace(target, path)
        return source

    os.utime(path, (LONG_AGO, LONG_AGO))
    monkeypatch.setattr(SourceFile, "read", changing)
    assert "good.py" not in output("good.py")
    assert "good.py:1:1" in output("good.py")
    assert linted == ["good.py", "good.py"]


def test_what_cannot_be_written_is_said_once_and_harms_nothing(
    folder: Path, cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = output("--no-cache")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    result = torchlint()
    assert (result.stdout, result.exit_code) == (expected, 1)
    assert result.stderr == f"warning: cannot write the cache {cache_folder}: No space left on device\n"
    assert torchlint("--quiet").stderr == ""
    assert os.listdir(cache_folder) == ["CACHEDIR.TAG"]


def test_runs_at_the_same_time_keep_what_each_has_learned(tmp_path: Path) -> None:
    path, day = tmp_path / "a.json", 100
    first, second = Index(path, day), Index(path, day)
    for own, name in ((first, "a"), (second, "b"), (second, "c")):
        own.put(name, Entry((1, 2, 3, 4), name, [], day))
    first.save(lambda: None)
    second.save(lambda: None)
    assert [Index(path, day).get(name) is not None for name in "abcd"] == [True, True, True, False]


def test_what_nobody_asks_for_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    for day, name in ((1, "old"), (20, "a"), (21, "b"), (1 + MAX_DAYS, "c")):
        now = Index(path, day)
        now.put(name, Entry((), "", [], day))
        now.save(lambda: None)
    assert [name for name in ("old", "a", "b", "c") if Index(path, 31).get(name)] == ["a", "b", "c"]
    monkeypatch.setattr(index, "MAX_FILES", 2)
    now.put("d", Entry((), "", [], 31))
    now.save(lambda: None)
    assert [name for name in "abcd" if Index(path, 31).get(name)] == ["c", "d"]


def test_old_files_of_the_cache_are_deleted(folder: Path, cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "MAX_INDICES", 20)
    cache_folder.mkdir(parents=True)
    for number in range(25):
        (cache_folder / f"{number:032x}.json").touch()
    old = [f"{'a' * 32}.json", f"{'a' * 32}.{'b' * 16}.tmp"]
    mine = ["mine.txt", "old.json", "old.tmp", f"{'A' * 32}.json", f"{'a' * 32}.json.bak"]
    for name in (*old, *mine):
        (cache_folder / name).touch()
        os.utime(cache_folder / name, (LONG_AGO, LONG_AGO))
    output()
    names = {*os.listdir(cache_folder)}
    assert {*mine} <= names and not {*old} & names
    assert sum(len(name) == 37 and name.islower() for name in names) == 20 + 1


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_run_that_is_killed_while_it_writes(folder: Path, cache_folder: Path) -> None:
    killer = "import os, sys; os.replace = lambda *_: os.kill(os.getpid(), 9); from torchlint.cli import main; main()"
    expected = output("--no-cache")
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", killer, "--jobs", "1"], capture_output=True, cwd=folder)
        assert done.returncode == -signal.SIGKILL
    assert [path.suffix for path in cache_folder.iterdir() if path.suffix in (".json", ".tmp")] == [".tmp"] * 2
    assert output() == output() == expected


def test_fixing_takes_from_the_cache_only_what_is_clean(folder: Path, linted: list[str]) -> None:
    output()
    linted.clear()
    assert torchlint("--fix").stderr == "Fixed no findings.\n"
    assert {*linted} == {"bad.py", "sub/bad.py", "syntax.py"}


def test_what_may_come_of_the_machine_is_not_kept(folder: Path, linted: list[str]) -> None:
    (folder / "crash.py").write_text("crash()\n")
    (folder / "bytes.py").write_bytes(b"bad\xff")
    (folder / "link.py").symlink_to("nowhere")
    assert output() == output()
    assert linted[len(FILES) + 2 :] == ["bytes.py", "crash.py"]


def test_clear(folder: Path, cache_folder: Path) -> None:
    output()
    output("--select", "all")
    assert clear().stderr == f"Deleted 2 files in {cache_folder}.\n"
    assert not cache_folder.exists()
    assert clear().stderr == f"Deleted nothing in {cache_folder}.\n"
    output()
    (cache_folder / "mine.json").touch()
    assert clear().stderr == f"Deleted 1 file in {cache_folder}.\n"
    assert os.listdir(cache_folder) == ["mine.json"]


def test_a_finding_survives() -> None:
    span = Span(Position(1, 2), Position(3, 4))
    fix = Fix("delete it", (Edit(span, "x"), Edit(span, "")), Safety.UNSAFE)
    finding = Finding(
        *("a.py", "name", "TL999", "message \ud800", span, Severity.HINT, Confidence.LOW),
        *((Related(span, "here"),), "help", "fingerprint", fix),
    )
    for item in (finding, Finding("b.py", "name", "TL999", "", span, Severity.ERROR)):
        assert finding_of(json.loads(json.dumps(plain(item))), item.path) == item
