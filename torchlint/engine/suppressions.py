"""`# torchlint: ignore[...]`, `# torchlint: ignore-file`, `# noqa` and the suppressions without effect."""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile

from torchlint.files.lines import comments
from torchlint.files.source import SourceFile
from torchlint.finding import Category, Edit, Finding, Fix, Meta, Safety, Span
from torchlint.lazy_pattern import LazyPattern
from torchlint.suggest import hint_of_selector, nearest

UNUSED_SUPPRESSION = Meta(
    "unused-suppression",
    "TL004",
    Category.PEDANTIC,
    "A suppression comment suppresses nothing.",
)
UNKNOWN_SUPPRESSION = Meta(
    "unknown-suppression",
    "TL005",
    Category.PEDANTIC,
    "A suppression comment names no known rule.",
)

_Offsets = tuple[int, int]

_ANY_RULE = ""
_VERBS = ("ignore", "ignore-file")
_VERBS_OF_OTHERS = {
    "ignore": "noqa nolint disable disable-line disable-next disable-next-line ignore-line ignore-next-line "
    "allow off skip suppress",
    "ignore-file": "noqa-file disable-file disable-all ignore-all skip-file suppress-file",
}
"""How comments of other linters say `ignore` and `ignore-file`."""
_OURS = LazyPattern(r"#\s*torchlint\s*:\s*(?P<verb>[\w-]+)(?P<list>\s*\[(?P<names>[^\]#]*)(?P<closed>\])?)?")
_NOQA = LazyPattern(r"#\s*noqa(?![\w-])(?:\s*:\s*(?P<codes>[A-Z]+\d+(?:[,\s]+[A-Z]+\d+)*))?", re.IGNORECASE)
_WITHOUT_BRACKETS = LazyPattern(
    r"\s*(?:[=(]|:?\s*(?:TL\d+\b|[a-z]+(?:-[a-z]+)+(?=\s*(?:,|$))))", re.IGNORECASE | re.MULTILINE
)
"""Text behind `ignore` or `noqa` that names a rule as `ignore[TL101]` would: `TL101`, `=missing-zero-grad`."""
_NEWLINE = LazyPattern(r"\r\n?|\n")
_NAME = LazyPattern(r"[^\s,]+")
_CODE_OF_OURS = LazyPattern(r"TL\d+", re.IGNORECASE)
_MAY_NAME_RULES = LazyPattern(rb"#\s*(?:torchlint\s*:|(?i:noqa)\s*:[^\r\n]*TL)")
_WORDS = LazyPattern(r"[\w-]+")
_LIST = LazyPattern(r"\s*[\w-]+(?:\s*,\s*[\w-]+)*")


def list_of_names(comment: str) -> re.Match[str] | None:
    """The first `torchlint: ignore[...]` of a comment, whose names are the group `names`."""
    lists = (match for match in _OURS.finditer(comment) if match["verb"] == "ignore" and match["closed"])
    return next(lists, None)


@dataclass(frozen=True)
class _Part:
    """Where a selector stands in the text: in which comment, in which directive of that, in which list."""

    comment: _Offsets
    directive: _Offsets
    names: _Offsets | None = None
    name: _Offsets = (0, 0)

    def is_one_of_several(self, text: str) -> bool:
        return self.names is not None and len(_NAME.findall(text, *self.names)) > 1

    def removal(self, text: str) -> _Offsets:
        """The part of the text to delete, so that no trace of the selector stays."""
        if self.names is not None and self.is_one_of_several(text):
            return self._with_separators(text, *self.names)
        start, end = self.directive[0], text.find("#", self.directive[1], self.comment[1])
        return (start, end) if end >= 0 else self._to_the_end(text, start, self.comment[1])

    def _to_the_end(self, text: str, start: int, end: int) -> _Offsets:
        """With the spaces before; with the line, where nothing else is on it."""
        line = max(text.rfind(newline, 0, start) for newline in "\r\n") + 1
        before = len(text[line:start].rstrip(" \t\f"))
        newline = _NEWLINE.match(text, end)
        return (line, newline.end()) if not before and newline else (line + before, end)

    def _with_separators(self, text: str, first: int, last: int) -> _Offsets:
        start, end = self.name
        after = last - len(text[end:last].lstrip(" \t,"))
        if after < last:
            return start, after
        return first + len(text[first:start].rstrip(" \t,")), end


@dataclass
class _Mark:
    """One selector of one comment, or the whole of a bare comment (selector `_ANY_RULE`)."""

    selector: str
    span: Span
    part: _Part
    whole_file: bool = False
    noqa: bool = False
    used: bool = False

    def covers(self, meta: Meta, lines: Container[int]) -> bool:
        if not self.whole_file and self.span.start.line not in lines:
            return False
        return self.selector == _ANY_RULE or meta.is_meant_by(self.selector)


@dataclass(frozen=True)
class _Malformed:
    """A comment that suppresses nothing: its problem, what it should say, and text that may name rules for that."""

    span: Span
    problem: str
    meant: str
    rest: str = ""

    def message(self, known: Collection[Meta]) -> str:
        """The problem, and a form without it."""

        def is_rule(word: str) -> bool:
            return len(word) > 2 and any(meta.is_meant_by(word) for meta in known)  # `to` begins codes of TorchFix

        names = ", ".join(dict.fromkeys(takewhile(is_rule, _WORDS.findall(self.rest))))
        return f"{self.problem}; did you mean `# torchlint: {self.meant}{f'[{names}]' if names else ''}`?"


def may_name_rules(code: bytes) -> bool:
    """Whether a program may hold comments that are meant for torchlint; most do not."""
    return (b"torchlint" in code or b"TL" in code) and _MAY_NAME_RULES.search(code) is not None


class Suppressions:
    """The suppression comments of one file, and which of them were of use."""

    def __init__(self, source: SourceFile, *, ignored: bool = False) -> None:
        """With `ignored` the comments suppress nothing, and count as absent."""
        self.source = source
        self._ignored = ignored

    def of(self, source: SourceFile) -> Suppressions:
        """The comments of another file."""
        return Suppressions(source, ignored=self._ignored)

    def covers(self, meta: Meta, lines: Container[int]) -> bool:
        """Whether a finding of `meta` is suppressed by a comment on one of `lines`, or for the whole file."""
        covering = [mark for mark in self._marks if mark.covers(meta, lines)]
        for mark in covering:
            mark.used = True
        return bool(covering)

    def speaks_of(self, meta: Meta, lines: Container[int]) -> bool:
        """Whether a comment on one of `lines` is about `meta`, be there a finding to suppress or not."""
        return any(mark.covers(meta, lines) for mark in self._marks)

    def named(self) -> list[tuple[str, Span]]:
        """The rules that comments name, by name or code in lower case, and where."""
        return [(mark.selector, mark.span) for mark in self._marks if mark.selector != _ANY_RULE]

    def findings(self, checks: Collection[str], ran: Collection[str], known: Collection[Meta]) -> list[Finding]:
        """The comments that name no rule of `known`, or suppressed no finding of a rule that `ran`.

        Call it when all findings have been offered to `covers`. Only `checks` are reported.
        """
        found = self.without_effect(known) if UNKNOWN_SUPPRESSION.name in checks else []
        if UNUSED_SUPPRESSION.name in checks:
            unused = (
                self._finding(UNUSED_SUPPRESSION, mark.span, message, self._without(mark))
                for mark, message in self._unused(ran, known)
            )
            found += [finding for finding in unused if not self._is_itself_covered(finding)]
        return found

    def without_effect(self, known: Collection[Meta]) -> list[Finding]:
        """The comments that name no rule of `known`, or that only look like a suppression."""
        found = (self._finding(UNKNOWN_SUPPRESSION, *problem) for problem in self._unknown(known))
        return [finding for finding in found if not self._is_itself_covered(finding)]

    @property
    def _marks(self) -> list[_Mark]:
        return [item for item in self._read if isinstance(item, _Mark)]

    @property
    def _malformed(self) -> list[_Malformed]:
        return [item for item in self._read if not isinstance(item, _Mark)]

    @cached_property
    def _read(self) -> list[_Mark | _Malformed]:
        """The suppressions in comments, in order; most files are not even searched for comments."""
        data = self.source.code.lower()
        if self._ignored or (b"torchlint" not in data and b"noqa" not in data):
            return []
        text = self.source.text
        return [
            item
            for comment in comments(text)
            for item in (*self._own(text, comment.span()), *self._noqa(text, comment.span()))
        ]

    def _span(self, match: re.Match[str]) -> Span:
        return Span(self.source.position(match.start()), self.source.position(match.end()))

    def _own(self, text: str, comment: tuple[int, int]) -> Iterator[_Mark | _Malformed]:
        for match in _OURS.finditer(text, *comment):
            whole_file = match["verb"] == "ignore-file"
            if match["verb"] not in _VERBS:
                yield from self._other_verb(match, text[match.end("verb") : comment[1]])
            elif match["list"] is None and _WITHOUT_BRACKETS.match(text, match.end(), comment[1]):
                rest = text[match.end() : comment[1]]
                yield _Malformed(self._span(match), "the list of rules has no brackets", match["verb"], rest)
            elif match["list"] is None:
                yield _Mark(_ANY_RULE, self._span(match), _Part(comment, match.span()), whole_file)
            elif not match["closed"]:
                names = _LIST.match(match["names"])
                meant = f"{match['verb']}[{names[0].strip()}]" if names else match["verb"]
                yield _Malformed(self._span(match), "the list of rules lacks its closing `]`", meant)
            elif not match["names"].strip(" \t,"):
                yield _Malformed(self._span(match), "the list of rules is empty", match["verb"])
            else:
                for name in _NAME.finditer(text, *match.span("names")):
                    part = _Part(comment, match.span(), match.span("names"), name.span())
                    yield _Mark(name[0].lower(), self._span(name), part, whole_file)

    def _other_verb(self, match: re.Match[str], rest: str) -> Iterator[_Malformed]:
        """A verb that is nearly one of ours, or that other linters have; all else is no suppression."""
        verb = match["verb"].lower()
        others = (own for own, theirs in _VERBS_OF_OTHERS.items() if verb in theirs.split())
        if meant := next(others, "") or nearest(verb, _VERBS, 0.7):
            yield _Malformed(self._span(match), f"`{match['verb']}` suppresses nothing", meant, rest)

    def _noqa(self, text: str, comment: tuple[int, int]) -> Iterator[_Mark | _Malformed]:
        for match in _NOQA.finditer(text, *comment):
            rest = text[match.end() : comment[1]]
            if match["codes"] is None and rest.lstrip().startswith(":"):
                if _WITHOUT_BRACKETS.match(text, match.end(), comment[1]):
                    yield _Malformed(self._span(match), "`noqa` takes codes", "ignore", rest)
            elif match["codes"] is None:
                yield _Mark(_ANY_RULE, self._span(match), _Part(comment, match.span()), noqa=True)
                continue
            for code in _NAME.finditer(text, *match.span("codes")):
                part = _Part(comment, match.span(), match.span("codes"), code.span())
                yield _Mark(code[0].lower(), self._span(code), part, noqa=True)

    def _unknown(self, known: Collection[Meta]) -> Iterator[tuple[Span, str]]:
        yield from ((item.span, item.message(known)) for item in self._malformed)
        for mark in self._marks:
            others = mark.noqa and not _CODE_OF_OURS.fullmatch(mark.selector)
            if mark.selector == _ANY_RULE or others or _meant(mark, known):
                continue
            shown = _shown(mark.selector)
            yield mark.span, f"no rule is called `{shown}`{hint_of_selector(shown, known)}"

    def _unused(self, ran: Collection[str], known: Collection[Meta]) -> Iterator[tuple[_Mark, str]]:
        own = (UNUSED_SUPPRESSION.name, UNKNOWN_SUPPRESSION.name)
        for mark in self._marks:
            metas = _meant(mark, known)
            if mark.used or not _all_ran(metas, ran):
                continue
            if mark.selector == _ANY_RULE and not mark.noqa:
                yield mark, "this comment suppresses no finding"
            elif mark.selector != _ANY_RULE and metas[0].name not in own:
                name = metas[0].name if len(metas) == 1 else _shown(mark.selector)
                yield mark, f"there is no `{name}` finding {'in this file' if mark.whole_file else 'here'} to suppress"

    def _is_itself_covered(self, finding: Finding) -> bool:
        """Whether a comment names this very check; a bare one does not suppress itself."""
        meta = UNKNOWN_SUPPRESSION if finding.name == UNKNOWN_SUPPRESSION.name else UNUSED_SUPPRESSION
        lines = (finding.span.start.line,)
        return any(mark.selector != _ANY_RULE and mark.covers(meta, lines) for mark in self._marks)

    def _without(self, mark: _Mark) -> Fix:
        """The fix that removes a comment, or a name from its list; with it goes the reason that follows."""
        text = self.source.text
        start, end = mark.part.removal(text)
        is_name = mark.part.is_one_of_several(text)
        message = f"remove `{_shown(mark.selector)}` from this comment" if is_name else "remove this comment"
        span = Span(self.source.position(start), self.source.position(end))
        return Fix(message, (Edit(span, ""),), Safety.SAFE)

    def _finding(self, meta: Meta, span: Span, message: str, fix: Fix | None = None) -> Finding:
        return Finding(self.source.path, meta.name, meta.code, message, span, meta.category.severity, fix=fix)


def _meant(mark: _Mark, known: Iterable[Meta]) -> list[Meta]:
    """The rules that a comment may suppress."""
    return [meta for meta in known if mark.selector == _ANY_RULE or meta.is_meant_by(mark.selector)]


def _all_ran(metas: Sequence[Meta], ran: Collection[str]) -> bool:
    """Whether what a comment means ran: the one rule, or of several those that are on by default."""
    if len(metas) > 1:
        metas = [meta for meta in metas if meta.category.on_by_default and not meta.preview]
    return bool(metas) and all(meta.name in ran for meta in metas)


def _shown(selector: str) -> str:
    return selector.upper() if re.fullmatch(r"[a-z]+\d+", selector) else selector
