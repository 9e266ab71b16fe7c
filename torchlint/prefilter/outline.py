"""The outermost functions of a file and its classes, found in bytes."""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property, lru_cache
from typing import NamedTuple

from torchlint.files.python import UNREADABLE, python_tree
from torchlint.lazy_pattern import LazyPattern
from torchlint.syntax.spelling import with_plain_lines

WORD = rb"[\w\x80-\xff]+"
"""A name in bytes: letters beyond ASCII are several."""
_TARGET = rb"(?:self\.)?" + WORD
TARGETS = rb"%s(?:[ \t]*,[ \t]*%s)*" % (_TARGET, _TARGET)
"""Names and attributes of `self` that a statement binds: one, or several with commas in between."""
BINDING = LazyPattern(rb"(?:^|;)[ \t]*(%s)[ \t]*(?::[^=\n]+)?=(?!=)" % TARGETS, re.M)
_HEADER = LazyPattern(rb"\n([ \t]*)(?:async[ \t]+def|def|(class))[ \t]+(%s)" % WORD)
_HANDED_ON = (b")", b"]", b"}", b",", b";", b"\n", b" ", b"'", b'"')
"""What stands behind the name of a method or function that is not called there; the last two only behind a string."""
_TAKEN = LazyPattern(rb"(?:[=(\[{*:\"'.\n]|\b(?:return|if|else|or))[ \t]*$")
"""What stands before one."""
_BRACKETS = ((b"(", b")"), (b"[", b"]"), (b"{", b"}"))
_NAME = LazyPattern(WORD)
_EACH_TARGET = LazyPattern(_TARGET)
_IMPORT = LazyPattern(rb"import\b[ \t]*(\([^)]*\)|[^\n;]*)")
_RENAMED = LazyPattern(rb"[\n;][ \t]*(%s)[ \t]*=[ \t]*((?:%s\.)+)(%s)[ \t]*(?=[\n;#])" % (WORD, WORD, WORD))
"""A name that stands for something of a package: `exp = torch.exp`."""
_ALIAS = LazyPattern(rb"(%s)[ \t]+as[ \t]+(%s)" % (WORD, WORD))


class Function(NamedTuple):
    """A function or method with all that is nested in it: where it stands, its name, and the class it belongs to."""

    start: int
    end: int
    name: str
    owner: str


class Outline:
    """Functions that are in no other function, in the order of the file."""

    def __init__(self, data: bytes) -> None:
        self.data = b"\n" + with_plain_lines(data)
        """The file, in which a newline is before every line: what begins with one is found twice as fast."""
        self.functions: list[Function] = []
        self.bases: dict[str, frozenset[str]] = {}
        """The classes of the file, each with the names in its list of bases."""
        self._trees: dict[Function | None, ast.Module] = {}
        self._families: dict[str, frozenset[str]] = {}
        self._kin: dict[str, frozenset[str]] = {}
        self._read()
        if any(map(self._is_cut, self.functions)):
            self._read_again()
        self._starts = [function.start for function in self.functions]

    def _read(self) -> None:
        open_classes: list[tuple[int, str]] = []
        end = -1
        for found in _HEADER.finditer(self.data):
            start = found.start() + 1
            if start < end:
                continue
            indent, name = len(found[1]), decoded(found[3])
            while open_classes and open_classes[-1][0] >= indent:
                open_classes.pop()
            if found[2]:
                open_classes.append((indent, name))
                self.bases[name] = self._names_until_colon(found.end())
                continue
            end = self._end(start, indent)
            owner = open_classes[-1][1] if open_classes else ""
            self.functions.append(Function(start, end, name, owner))

    def _is_cut(self, function: Function) -> bool:
        """Whether a function seems to end inside of brackets, where a line is not indented."""
        text = self.text(function)
        balanced = all(text.count(opening) == text.count(closing) for opening, closing in _BRACKETS)
        try:
            return not (balanced or self.tree(function))
        except UNREADABLE:
            return True

    def _read_again(self) -> None:
        """Read the file as Python would write it."""
        with suppress(*UNREADABLE):
            self.data = b"\n" + ast.unparse(python_tree(self.data)).encode() + b"\n"
            self.functions.clear()
            self.bases.clear()
            self._trees.clear()
            self._read()

    def _names_until_colon(self, start: int) -> frozenset[str]:
        end = self.data.find(b":\n", start)
        return frozenset(map(decoded, _NAME.findall(self.data, start, max(start, end))))

    def _end(self, start: int, indent: int) -> int:
        found = _outside(indent).search(self.data, max(self.data.find(b"\n", start), start))
        return found.start() + 1 if found else len(self.data)

    def around(self, place: int) -> Function | None:
        """The function that a place is in."""
        index = bisect_right(self._starts, place) - 1
        return self.functions[index] if index >= 0 and place < self.functions[index].end else None

    @classmethod
    def of(cls, data: bytes) -> Outline:
        """The outline of a file; the last one that was asked for is kept."""
        return _last(data)

    def tree(self, function: Function | None) -> ast.Module:
        """A function as Python parses it, or what is outside of all; raises one of `UNREADABLE`."""
        known = self._trees.get(function)
        if known is None:
            known = self._trees[function] = self._parsed(function)
        return known

    def _parsed(self, function: Function | None) -> ast.Module:
        if function is None:
            try:
                return python_tree(self.statements)
            except SyntaxError:  # a text that only looks like a function
                return python_tree(self.data)
        text = self.text(function)
        if text[:1] not in b" \t":
            return python_tree(text)
        tree = python_tree(b"if 1:\n" + text)
        assert isinstance(tree.body[0], ast.If)
        tree.body = tree.body[0].body
        return tree

    def users(self, name: str) -> list[Function | None]:
        """The functions in which something of a name is called or handed on; None for what is outside of all."""
        return list(dict.fromkeys(self.around(place) for place in self.mentions(name)))

    def mentions(self, name: str) -> Iterator[int]:
        """Where a name stands that is called or handed on: not where it is defined, bound, or begins an expression."""
        ends = _HANDED_ON if b"getattr" in self.data else _HANDED_ON[:-2]
        for text in map(str.encode, self.spellings(name)):
            for place in finds(self.data, text):
                after = self.data[place + len(text) : place + len(text) + 1]
                if (after == b"(" and not self._defines(place)) or (after in ends and self._is_taken(place)):
                    yield place

    def spellings(self, name: str) -> list[str]:
        """A name, and those that the file gives to the same."""
        return [name, *self._aliases_of.get(name, ())]

    @cached_property
    def _aliases_of(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for alias, name in self.aliases.items():
            found.setdefault(name, []).append(alias)
        return found

    def _is_taken(self, place: int) -> bool:
        """Whether a name stands where a function is handed on: not behind a comma, where most are variables."""
        return not self.continues(place) and bool(_TAKEN.search(self.data, max(0, place - 80), place))

    def callers(self, name: str) -> list[Function | None]:
        """The functions in which something of a name is called."""
        return list(dict.fromkeys(self.around(place) for place in self.calls(name)))

    def calls(self, name: str) -> Iterator[int]:
        """Where a name stands before a bracket, but for its definition."""
        return (place for place in finds(self.data, name.encode() + b"(") if not self._defines(place))

    def _defines(self, place: int) -> bool:
        return self.data[max(0, place - 4) : place] == b"def " or self.continues(place)

    def continues(self, place: int) -> bool:
        """Whether a name began before a place."""
        before = self.data[max(0, place - 1) : place]
        return before.isalnum() or before == b"_"

    def text(self, function: Function | None) -> bytes:
        """A function, or what is outside of all."""
        return self.data[function.start : function.end] if function else self.statements

    def binding(self, place: int) -> list[bytes]:
        """The names that the statement around a place binds: the last one before it whose brackets are still open."""
        function = self.around(place)
        start = function.start if function else self.line_start(place)
        for item in reversed(list(BINDING.finditer(self.data, start, place))):
            text = self.data[item.end() : place]
            if text.count(b"(") + text.count(b"[") > text.count(b")") + text.count(b"]"):
                return bound_names(item[1])
        return []

    def line_start(self, place: int) -> int:
        return self.data.rfind(b"\n", 0, place) + 1

    def line(self, place: int) -> bytes:
        end = self.data.find(b"\n", place)
        return self.data[self.line_start(place) : end if end >= 0 else len(self.data)]

    @cached_property
    def by_name(self) -> dict[str, list[Function]]:
        found: dict[str, list[Function]] = {}
        for function in self.functions:
            found.setdefault(function.name, []).append(function)
        return found

    @cached_property
    def _imports(self) -> list[tuple[int, bytes]]:
        """Where something is imported, and what."""
        places = finds(self.data, b"import")
        return [(place, item[1]) for place in places if (item := _IMPORT.match(self.data, place))]

    @cached_property
    def imports(self) -> frozenset[str]:
        """Every name in an import."""
        return frozenset(decoded(name) for _, item in self._imports for name in _NAME.findall(item))

    @cached_property
    def module_imports(self) -> frozenset[str]:
        """Every name in an import that stands in no function."""
        found = (item for place, item in self._imports if self.around(place) is None)
        return frozenset(decoded(name) for item in found for name in _NAME.findall(item))

    @cached_property
    def aliases(self) -> dict[str, str]:
        """What is imported, or bound to a name, under another name: the name, and what it is there."""
        found = {decoded(alias): decoded(name) for _, item in self._imports for name, alias in _ALIAS.findall(item)}
        roots = self.imports | self.bases.keys()
        for alias, package, name in _RENAMED.findall(self.data):
            if decoded(package).partition(".")[0] in roots:
                found.setdefault(decoded(alias), decoded(name))
        return found

    @property
    def parts(self) -> list[Function | None]:
        """Every function, and what is outside of all."""
        return [*self.functions, None]

    def family(self, name: str) -> frozenset[str]:
        """The bases of a class that the file defines, theirs too."""
        known = self._families.get(name)
        if known is None:
            found: set[str] = set()
            stack = [name]
            while stack:
                new = self.bases.get(stack.pop(), frozenset()) & self.bases.keys() - found
                found |= new
                stack.extend(new)
            known = self._families[name] = frozenset(found)
        return known

    def kin(self, name: str) -> frozenset[str]:
        """A class, those it inherits from, and those that inherit from it."""
        known = self._kin.get(name)
        if known is None:
            known = self._kin[name] = frozenset({name, *self.family(name)}) | {
                other for other in self.bases if name in self.family(other)
            }
        return known

    @cached_property
    def statements(self) -> bytes:
        """The file without what its functions do."""
        parts, end = [], 0
        for function in self.functions:
            line = self.line(function.start)
            parts += [self.data[end : function.start], line[: len(line) - len(line.lstrip())], b"def _(): ...\n"]
            end = function.end
        return b"".join((*parts, self.data[end:]))


_last = lru_cache(maxsize=1)(Outline)


@lru_cache(maxsize=64)
def _outside(indent: int) -> re.Pattern[bytes]:
    """Where a line begins that ends a block which is indented deeper than so many characters."""
    return re.compile(rb"\n[ \t]{0,%d}[^\s#)\]}]" % indent)


def decoded(name: bytes) -> str:
    """A name as Python's parser gives it, where the file is in UTF-8."""
    return name.decode(errors="replace")


def bound_names(targets: bytes) -> list[bytes]:
    """The names among what a statement binds."""
    return _EACH_TARGET.findall(targets)


def finds(data: bytes, text: bytes) -> Iterator[int]:
    """Where a text stands in bytes."""
    place = data.find(text)
    while place >= 0:
        yield place
        place = data.find(text, place + len(text))
