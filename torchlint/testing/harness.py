"""The fixture harness, for built-in rules and for plugins: what is wrong with a rule's fixtures and examples.

A test module of a plugin needs no more than this:

    @pytest.mark.parametrize("case", testing.cases(Path("fixtures")), ids=str)
    def test_fixture(case, bless):
        assert case.problems(bless=bless) == []

and a `conftest.py` with `pytest_plugins = ["torchlint.testing.blessing"]`, for the option `--bless`.

A fixture is a `.py` file, or a program in a Markdown page: a `python` block, with its fixes in a `diff` block below.
"""

from __future__ import annotations

import difflib
import importlib
import io
import re
import tokenize
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import zip_longest
from pathlib import Path

from torchlint.engine import registry
from torchlint.engine.examination import lint, without_fixes
from torchlint.engine.fixer import Fixed, fix
from torchlint.engine.plugins import rules_in
from torchlint.engine.rule_table import AnyRule
from torchlint.files.source import SourceError, SourceFile
from torchlint.finding import Finding
from torchlint.rule import Rule
from torchlint.testing.markers import MalformedMarker, Marker, Problem, described, mismatches, read

Rules = tuple[AnyRule, ...]
_FILE_NAME = re.compile(r"[a-z][a-z0-9_]*\.(?:py|md)")
_BLESS = "bless them if that is right"
_BLOCK = re.compile(r"^```python\n(?P<program>.*?)^```\n(?:\n```diff\n(?P<fixes>.*?)^```\n)?", re.M | re.S)
_EXAMPLES = re.compile(r"^## Example\n+```python\n(.*?)^```\n+Use instead:\n+```python\n(.*?)^```", re.M | re.S)


@dataclass(frozen=True)
class Fixture:
    """One file of `fixtures/<rule_with_underscores>/`, linted with all rules that are on and its own."""

    path: Path
    rules: Rules

    @property
    def rule(self) -> str:
        """The name of the rule the file is about."""
        return self.path.parent.name.replace("_", "-")

    @property
    def shown(self) -> str:
        return "/".join(self.path.parts[-3:])

    @property
    def first_line(self) -> int:
        """The line of the file where the program begins."""
        return 1

    @cached_property
    def text(self) -> str:
        return SourceFile(self.shown, self.path.read_bytes()).text

    def lines(self) -> list[str]:
        return io.StringIO(self.text).readlines()

    @cached_property
    def tokens(self) -> list[tokenize.TokenInfo]:
        return _tokens(self.text)

    def findings(self, text: str | None = None) -> list[Finding]:
        """The findings of the file, or of a variant of its text."""
        return list(_lint(self.shown, self.text if text is None else text, self.rule, self.rules))

    @property
    def fixed_path(self) -> Path:
        """Where the file stands with all fixes made, safe and unsafe: `bad.fixed.py` beside `bad.py`."""
        return self.path.with_suffix(".fixed.py")

    def fixed(self, text: str | None = None) -> Fixed:
        """The file, or a variant of its text, with all fixes made."""
        return _fixed(self.shown, self.text if text is None else text, self.rule, self.rules)

    def is_blessed(self) -> bool:
        """Whether a fixed form is kept."""
        return self.fixed_path.exists()

    def unblessed(self) -> Iterator[Problem]:
        """Lines in which the file with all fixes made differs from the file beside this one."""
        blessed = self.fixed_path.read_text("utf-8") if self.is_blessed() else self.text
        yield from _differences(blessed, self.fixed().source.text, self.fixed_path.name)

    def bless(self) -> None:
        """Write what the fixes make of the file now; read it before you commit it."""
        fixed = self.fixed()
        if fixed.applied:
            self.fixed_path.write_bytes(fixed.source.data)
        else:
            self.fixed_path.unlink(missing_ok=True)

    def markers(self) -> list[Marker]:
        """The markers in the comments; raises `MalformedMarker`."""
        known = {rule.rule_name() for rule in self.rules}
        comments = (token for token in self.tokens if token.type == tokenize.COMMENT)
        return [marker for token in comments for marker in read(token.string, token.start[0], known)]


@dataclass(frozen=True)
class Program(Fixture):
    """A program of a Markdown page `fixtures/<rule_with_underscores>/<behaviour>.md`."""

    number: int
    """Its place among the programs of the page, from 1."""
    start: int
    program: str

    @property
    def shown(self) -> str:
        return f"{'/'.join(self.path.parts[-3:-1])}/{self.path.stem}_{self.number}.py"

    @property
    def first_line(self) -> int:
        return self.start

    @cached_property
    def text(self) -> str:
        return self.program

    def diff(self) -> str:
        """The changes of all fixes."""
        before, after = self.text.splitlines(), self.fixed().source.text.splitlines()
        return "".join(f"{line}\n" for line in list(difflib.unified_diff(before, after, n=1, lineterm=""))[2:])

    def is_blessed(self) -> bool:
        return self._block(self.path.read_text("utf-8"))["fixes"] is not None

    def unblessed(self) -> Iterator[Problem]:
        if self.diff() != (self._block(self.path.read_text("utf-8"))["fixes"] or ""):
            yield 1, f"the fixes should be ({_BLESS}):\n{self.diff()}"

    def bless(self) -> None:
        page = self.path.read_text("utf-8")
        block = self._block(page)
        diff = self.diff()
        below = f"\n```diff\n{diff}```\n" if diff else ""
        self.path.write_text(
            f"{page[: block.start()]}```python\n{self.program}```\n{below}{page[block.end() :]}", "utf-8"
        )

    def _block(self, page: str) -> re.Match[str]:
        return list(_BLOCK.finditer(page))[self.number - 1]


def _programs(page: Path, rules: Rules) -> Iterator[Program]:
    text = page.read_text("utf-8")
    for number, block in enumerate(_BLOCK.finditer(text), 1):
        line = text.count("\n", 0, block.start("program")) + 1
        yield Program(page, rules, number, line, block["program"])


def _selection(own: str, rules: Rules) -> registry.Selection:
    return registry.Selection(tuple(rule for rule in rules if rule.category.on_by_default or rule.rule_name() == own))


@lru_cache(maxsize=64)
def _lint(shown: str, text: str, own: str, rules: Rules) -> tuple[Finding, ...]:
    return tuple(lint(SourceFile(shown, text.encode()), _selection(own, rules)))


@lru_cache(maxsize=64)
def _fixed(shown: str, text: str, own: str, rules: Rules) -> Fixed:
    return fix(SourceFile(shown, text.encode()), _selection(own, rules), unsafe=True)


def _tokens(text: str) -> list[tokenize.TokenInfo]:
    return list(tokenize.generate_tokens(io.StringIO(text).readline))


def _check_markers(fixture: Fixture) -> Iterator[Problem]:
    """Findings and markers match exactly, both ways; `bad.py` expects something, `good.py` nothing."""
    if fixture.rule not in {rule.rule_name() for rule in fixture.rules}:
        yield 1, f"no rule is named `{fixture.rule}`"
    if not _FILE_NAME.fullmatch(fixture.path.name):
        yield 1, "a fixture is bad.py, good.py, <topic>.py, issue_<n>.py or <behaviour>.md"
    try:
        markers = fixture.markers()
    except MalformedMarker as error:
        yield error.line, str(error)
        return
    expected = [marker for marker in markers if marker.kind == "expect"]
    if fixture.path.name == "bad.py" and fixture.rule not in {marker.rule for marker in expected}:
        yield 1, f"bad.py expects no {fixture.rule}"
    if fixture.path.name == "good.py":
        yield from ((marker.line, f"good.py expects {marker}") for marker in expected)
    yield from mismatches(markers, fixture.findings())


def _check_suppressed(fixture: Fixture) -> Iterator[Problem]:
    """Every finding obeys an `ignore[...]` at the end of its line."""
    text = _with_suppressions(fixture, fixture.findings())
    for finding in fixture.findings(text):
        yield (
            finding.span.start.line,
            f"not suppressed by `ignore[{finding.name}]` on its line: {described(finding)}",
        )


def _with_suppressions(fixture: Fixture, findings: Iterable[Finding]) -> str:
    lines = fixture.lines()
    ends = {token.start[0]: token.start[1] for token in reversed(fixture.tokens) if token.type in _LINE_ENDS}
    names: dict[int, set[str]] = {}
    for finding in findings:
        line = min((line for line in ends if line >= finding.span.start.line), default=len(lines))
        names.setdefault(line, set()).add(finding.name)
    for line, ignored in names.items():
        old, column = lines[line - 1], ends[line]
        lines[line - 1] = f"{old[:column]}  # torchlint: ignore[{', '.join(sorted(ignored))}]  {old[column:]}"
    return "".join(lines)


_LINE_ENDS = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE)


def _check_fixed(fixture: Fixture) -> Iterator[Problem]:
    """The fixes make the blessed text, keep each comment, and leave nothing to fix."""
    if not fixture.is_blessed() and not any(finding.fix for finding in fixture.findings()):
        return
    fixed = fixture.fixed()
    yield from fixture.unblessed()
    for finding in fixed.findings:
        if finding.fix is not None or finding.name == registry.INTERNAL_ERROR.name:
            yield finding.span.start.line, f"is left after all fixes: {described(finding)}"
    for comment in Counter(_comments(fixture.text)) - Counter(_comments(fixed.source.text)):
        yield 1, f"the fixes lose the comment `{comment}`"


def _comments(text: str) -> list[str]:
    return [token.string for token in _tokens(text) if token.type == tokenize.COMMENT]


def _differences(expected: str, actual: str, name: str) -> Iterator[Problem]:
    """The places of `expected`, a file of this name, where `actual` is another text."""
    old, new = expected.splitlines(), actual.splitlines()
    for kind, start, end, first, last in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind != "equal":
            yield start + 1, f"line of {name}: {old[start:end]} should be {new[first:last]}: bless it if that is right"


Variant = Callable[[str], str]


def _same_findings(title: str, variant: Variant) -> Callable[[Fixture], Iterator[Problem]]:
    def check(fixture: Fixture) -> Iterator[Problem]:
        varied_text = variant(fixture.text)
        yield from _changed(fixture.findings(), fixture.findings(varied_text), f"with {title}")
        if any(finding.fix for finding in fixture.findings()):
            yield from _same_fixes(title, fixture.fixed().source.text, fixture.fixed(varied_text).source.text)

    return check


def _changed(usual: Iterable[Finding], varied: Iterable[Finding], how: str) -> Iterator[Problem]:
    """Findings that are lost, and new ones, where something is not as usual."""
    before, after = (Counter((finding.span.start.line, finding.name) for finding in found) for found in (usual, varied))
    for line, name in before - after:
        yield line, f"{name} is lost {how}"
    for line, name in after - before:
        yield line, f"{name} fires only {how}"


def _check_without_fixes(fixture: Fixture) -> Iterator[Problem]:
    """The findings are the same when no fixes are computed, as in an editor while somebody types."""
    source = SourceFile(fixture.shown, fixture.text.encode())
    alone = lint(source, without_fixes(_selection(fixture.rule, fixture.rules)))
    yield from _changed(fixture.findings(), alone, "without fixes")


def _same_fixes(title: str, usual: str, varied: str) -> Iterator[Problem]:
    """Where the fixes make other lines of a variant, white space at their ends aside."""
    old, new = ([line.strip() for line in text.splitlines()] for text in (usual, varied))
    for number, (one, other) in enumerate(zip_longest(old, new), 1):
        if one != other:
            yield number, f"line of the fixed file is `{other}` with {title}, and else `{one}`"
            return
    if "\r\n" in varied and "\n" in varied.replace("\r\n", ""):
        yield 1, "the fixes mix newlines"


def _with_crlf(text: str) -> str:
    return re.sub(r"\r?\n", "\r\n", text)


def _reindented(text: str, unit: str) -> str:
    """The text with other indentation of its statements; strings, comments and continuation lines stay."""
    lines = io.StringIO(text).readlines()
    depth, fresh = 0, True
    for token in _tokens(text):
        if token.type in (tokenize.INDENT, tokenize.DEDENT):
            depth += 1 if token.type == tokenize.INDENT else -1
        elif token.type == tokenize.NEWLINE:
            fresh = True
        elif fresh and token.type not in (tokenize.COMMENT, tokenize.NL, tokenize.ENDMARKER):
            row, column = token.start
            lines[row - 1] = unit * depth + lines[row - 1][column:]
            fresh = False
    return "".join(lines)


_CHECKS: dict[str, Callable[[Fixture], Iterator[Problem]]] = {
    "markers": _check_markers,
    "suppressed": _check_suppressed,
    "fixed": _check_fixed,
    "without-fixes": _check_without_fixes,
    "crlf": _same_findings("CRLF newlines", _with_crlf),
    "tabs": _same_findings("tabs", lambda text: _reindented(text, "\t")),
    "two-spaces": _same_findings("two-space indentation", lambda text: _reindented(text, "  ")),
}


@dataclass(frozen=True)
class Case:
    """One check of one fixture file."""

    fixture: Fixture
    check: str

    def problems(self, *, bless: bool = False) -> list[str]:
        """The problems, each with file and line; empty when there are none.

        With `bless`, write the fixed file before comparing.
        """
        if bless and self.check == "fixed":
            self.fixture.bless()
        try:
            found = sorted(_CHECKS[self.check](self.fixture))
        except (tokenize.TokenError, SyntaxError, SourceError) as error:
            found = [(1, f"is no Python: {error}")]
        place, offset = "/".join(self.fixture.path.parts[-3:]), self.fixture.first_line - 1
        return [f"{place}:{line + offset}: {text}" for line, text in found]

    def __str__(self) -> str:
        line = "" if self.fixture.path.suffix == ".py" else f":{self.fixture.first_line}"
        return f"{self.fixture.path.parent.name}/{self.fixture.path.name}{line}:{self.check}"


def fixtures(root: Path, rules: Rules | None = None) -> list[Fixture]:
    """The files and the programs of pages under `root`. All installed rules run on each unless `rules` are given."""
    folders = sorted(folder for folder in root.iterdir() if folder.is_dir() and folder.name[0] not in "._")
    chosen = registry.rules() if rules is None else rules
    files = [path for folder in folders for path in sorted(folder.glob("*.py")) if not _is_result(path)]
    pages = [path for folder in folders for path in sorted(folder.glob("*.md"))]
    return [*(Fixture(path, chosen) for path in files), *(found for page in pages for found in _programs(page, chosen))]


def _is_result(path: Path) -> bool:
    """Whether a file is what fixes make of the one beside it."""
    name = path.name.removesuffix(".fixed.py")
    return name != path.name and path.with_name(f"{name}.py").exists()


def cases(root: Path, rules: Rules | None = None) -> list[Case]:
    """Every check of every fixture file, for `pytest.mark.parametrize(..., ids=str)`."""
    return [Case(fixture, check) for fixture in fixtures(root, rules) for check in _CHECKS]


def rules_of(package: str) -> tuple[type[Rule], ...]:
    """The rules that torchlint takes from a package or module of this name, for tests of each."""
    return tuple(rules_in(importlib.import_module(package)))


def known_limits(root: Path, rules: Rules | None = None) -> Counter[tuple[str, str]]:
    """How many misses (`todo-expect`) and false alarms (`todo-ok`) are pinned, by kind and rule."""
    markers = (marker for fixture in fixtures(root, rules) for marker in fixture.markers())
    return Counter((marker.kind, marker.rule) for marker in markers if marker.kind.startswith("todo-"))


def example_problems(rule: AnyRule, rules: Rules | None = None) -> list[str]:
    """Problems of the examples in a rule's docstring: the first must fire, the second be silent."""
    name = rule.rule_name()
    found = _EXAMPLES.search(rule.meta().documentation)
    if found is None:
        return [f"{name}: no `## Example` with a python block, `Use instead:` and another python block"]
    chosen = registry.rules() if rules is None else rules
    bad, good = (_lint(f"{name}.py", text, name, chosen) for text in found.groups())
    problems = [f"{name}: `Use instead:` is not silent: {described(finding)}" for finding in good]
    if name not in {finding.name for finding in bad}:
        problems.append(f"{name}: `## Example` does not fire")
    return problems
