"""What a file defines, and what its names are bound to: read from bytes, and only as far as it is asked for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property

from torchlint.prefilter.outline import TARGETS, WORD, Outline, bound_names, decoded, finds
from torchlint.pytorch import naming
from torchlint.pytorch.api import MODULE_EVIDENCE
from torchlint.pytorch.autograd_table import INPLACE_MODULES, MODULES, MODULES_WITHOUT_PARAMETERS
from torchlint.syntax.spelling import with_plain_lines

HOLDERS = frozenset({"Sequential", "ModuleList", "ModuleDict"})


def _shortest(names: Iterable[str]) -> list[str]:
    """The names that none of the others is the end of: what ends in `Linear` ends in a name that is left."""
    known = set(names)
    return sorted(name for name in known if not any(name != other and name.endswith(other) for other in known))


_PARAMETER = re.compile(rb".*?(%s)[ \t]*(?::[^=\n]+)?=[^=\n]|.*?register_parameter\([ \t]*[\"'](%s)" % (WORD, WORD))
_PLAIN_PARAMETER = re.compile(rb".*?(%s)[ \t]*=[^=\n]" % WORD)
_COPY = re.compile(rb"=[ \t]*(?:self\.)?(%s)[ \t]*(?=[\n;#])" % WORD)
"""The name to which another one is bound."""
_BINDINGS = [
    re.compile(before + rb"(?:[ \t]*=|[ \t]*:[^=\n(]+=)(?!=)")
    for before in (
        rb"\n[ \t]*(%s)" % TARGETS,
        rb"\n[ \t]*\(([^()=]{1,400})\)",
        rb"\n[ \t]*([\[(][^\n=]{1,400}[\])])",
        rb";[ \t]*(%s)" % TARGETS,
        rb":[ \t]+(self\.%s)" % WORD,
        rb"=[ \t]*(self\.%s)" % WORD,
    )
]
"""What statements bind: several names in brackets, behind another statement or a colon, and from right to left too."""
_IN_PLACE = re.compile(
    rb"inplace(?![ \t]*=[ \t]*False)|(?:%s)\((?:[^()\n]*,)?[ \t]*True\b" % "|".join(INPLACE_MODULES).encode()
)
_EVIDENCE = [f".{name}(".encode() for name in MODULE_EVIDENCE]
_RECEIVER = re.compile(rb"(%s)(?:\[[^\]\n]*\])?$" % WORD)
_NAME = re.compile(WORD)
_MADE = re.compile(rb"(%s)\s*\(" % WORD)
_UNUSUAL = re.compile(rb"[)\]}][(.]|\bgetattr\b|\blambda\b")
"""A value calls what is no name: any of the names in it."""
_UNUSUAL_OWNER = re.compile(rb"\bself\b(?!\.)[^=;:]{0,80}?[)\]]\.%s[ \t]*(?::[^=\n]+)?=(?!=)" % WORD)
"""An attribute of `self` is bound, and that is not written `self.name`."""
_PLAIN = re.compile(rb"\s*(?!\d)%s(?:\.%s)*\s*" % (WORD, WORD))
_LITERAL = re.compile(
    rb"[ \t]*(?:-?[\d.][\w.]*|None|True|False|[fr]?[\"'][^\n]*|\[\]|\{\}|\(\)"
    rb"|(?:len|int|float|str|bool|dict|list|set|deque|defaultdict|Counter|time\.\w+)\([^\n]*)[ \t]*(?:[#;\n]|$)"
)
_AFTER = (b".", b",", b":", b" :")

_SURE_GRAPHS = (b"Parameter", b"Module", b"def forward", b"requires_grad", b"backward")
_GRAPHS = tuple(
    name.encode()
    for name in (
        *(f".{name}" for name in MODULE_EVIDENCE),
        *_shortest(MODULES.keys() - MODULES_WITHOUT_PARAMETERS | HOLDERS),
    )
)
_USED = re.compile(rb"\s*[()\],;}]|[ \t]*(?:[\r\n]|#|(?:if|else)\b)")
"""What stands behind a name that is called or handed on."""


def have_graphs(data: bytes) -> bool:
    """Whether there is anything in a file that autograd could follow."""
    if b"torch" not in data:
        return False
    if any(text in data for text in _SURE_GRAPHS):
        return True
    data = with_plain_lines(data)
    places = (place + len(text) for text in _GRAPHS for place in finds(data, text))
    asks = b"getattr" in data
    return any(_USED.match(data, end) or (asks and data[end : end + 1] in b"\"'") for end in places)


class Makers:
    """Facts about a whole file that the reading of one of its functions needs."""

    def __init__(self, outline: Outline) -> None:
        self.outline = outline
        self.data = outline.data
        self._made: dict[tuple[str, str], tuple[tuple[str, ...], bool]] = {}
        self._attributes: dict[str, bool] = {}

    @cached_property
    def used_as_modules(self) -> frozenset[str]:
        """Names and attributes of which the file calls what modules have: `net.eval()`."""
        places = (place for text in _EVIDENCE for place in finds(self.data, text))
        found = (_RECEIVER.search(self.data, self.outline.line_start(place), place) for place in places)
        return frozenset(decoded(item[1]) for item in found if item)

    def is_attribute(self, name: str) -> bool:
        """Whether objects hold something of a name, as far as the file shows, rather than inherit a method."""
        known = self._attributes.get(name)
        if known is None:
            shown = name in self.kept or any(b".%s%s" % (name.encode(), after) in self.data for after in _AFTER)
            known = self._attributes[name] = shown or bool(naming.MODULE.search(name))
        return known

    @cached_property
    def are_plain(self) -> bool:
        """Whether all attributes of `self` are bound as most people do it."""
        return not _UNUSUAL_OWNER.search(self.data)

    @cached_property
    def work_in_place(self) -> bool:
        """Whether a module of the file works in place."""
        return _IN_PLACE.search(self.data) is not None

    @cached_property
    def parameters(self) -> frozenset[str]:
        """Names and attributes that are bound to parameters."""
        makers = (b"arameter", b"requires_grad", *(alias.encode() for alias in self._parameter_aliases()))
        places = (place for text in makers for place in finds(self.data, text) if self._ends(place + len(text)))
        first_of_line = {self.outline.line_start(place): place for place in reversed(list(places))}
        names = {name for place in first_of_line.values() for name in self._bound_to_parameter(place)}
        todo = list(names)
        while todo:
            more = self._copies.get(todo.pop(), set()) - names
            names |= more
            todo.extend(more)
        return frozenset(names)

    def _ends(self, place: int) -> bool:
        """Whether a name ends at a place."""
        after = self.data[place : place + 1]
        return not (after.isalnum() or after == b"_")

    @cached_property
    def _copies(self) -> dict[str, set[str]]:
        """The names and attributes that are bound to others, by those."""
        found: dict[str, set[str]] = {}
        for place in _COPY.finditer(self.data):
            copies = map(decoded, _NAME.findall(self._before_equals(place.start())))
            found.setdefault(decoded(place[1]), set()).update(copies)
        return found

    def _before_equals(self, place: int) -> bytes:
        return self.data[self.outline.line_start(place) : place]

    def _bound_to_parameter(self, place: int) -> Iterator[str]:
        """The names and attributes that a statement binds in which parameters are mentioned."""
        line = self.outline.line(place)
        found = _PARAMETER.match(line)
        if found:
            yield decoded(found[1] or found[2])
        if found := _PLAIN_PARAMETER.match(line):
            yield decoded(found[1])
        before, equals, _ = line.partition(b"=")
        before = before.rpartition(b";")[2]
        if equals and (before.lstrip()[:1] in (b"(", b"[") or (b"," in before and b"(" not in before)):
            yield from map(decoded, _NAME.findall(before))
        elif not equals or self.outline.line_start(place) + len(before) > place:
            yield from (decoded(name).removeprefix("self.") for name in self.outline.binding(place))

    def _parameter_aliases(self) -> Iterator[str]:
        return (alias for alias, name in self.outline.aliases.items() if name == "Parameter")

    def made(self, name: str, owner: str = "") -> tuple[tuple[str, ...], bool]:
        """What is called where a name or attribute is bound (`Conv2d` for `self.conv`), and if in place.

        `owner`: the class whose methods bind the attribute, or those of its bases and of what inherits from it.
        """
        known = self._made.get((name, owner))
        if known is None:
            self._made[name, owner] = (), False  # what is bound to itself, meanwhile
            values = [self._statement(*span) for span in self._bound(name, owner)]
            called = [decoded(item) for value in values for item in _called_in(value)]
            texts = [
                *values,
                *(self.outline.text(each) for item in called for each in self.outline.by_name.get(item, ())),
            ]
            plain = [decoded(_NAME.findall(value)[-1]) for value in values if _PLAIN.fullmatch(value)]
            inner = [self.made(item) for item in plain if item in self._bindings]
            made = [
                *plain,
                *called,
                *(item for part, _ in inner for item in part),
                *self._made_in(texts[len(values) :]),
            ]
            in_place = any(map(_IN_PLACE.search, texts)) or any(flag for _, flag in inner)
            known = tuple(self.outline.aliases.get(item, item) for item in dict.fromkeys(made)), in_place
            self._made[name, owner] = known
        return known

    def _made_in(self, functions: Iterable[bytes]) -> Iterator[str]:
        """The modules that functions make, whose results are bound."""
        return (name for text in functions for item in _MADE.findall(text) if (name := decoded(item)) in MODULES)

    @cached_property
    def _bindings(self) -> dict[str, list[tuple[int, int]]]:
        """Start and end of what binds each name or attribute of `self`, up to the value."""
        found: dict[str, list[tuple[int, int]]] = {}
        for binding in _BINDINGS:
            for item in binding.finditer(self.data):
                for name in bound_names(item[1]):
                    found.setdefault(decoded(name), []).append((item.start() + 1, item.end()))
        return found

    def may_keep_tensor(self, attribute: str) -> bool:
        """Whether an attribute is bound to more than numbers, strings and empty containers, as far as one can see."""
        bound = self._bindings.get(attribute, ())
        return not bound or any(not _LITERAL.match(self.data, end) for _, end in bound)

    @cached_property
    def kept(self) -> frozenset[str]:
        """Names that the file binds, attributes among them."""
        return frozenset(name.removeprefix("self.") for name in self._bindings)

    def _bound(self, name: str, owner: str) -> list[tuple[int, int]]:
        """The values that a name or attribute is bound to."""
        base, dot, attribute = name.rpartition(".")
        found = self._bindings.get(f"self.{attribute}" if dot else name, [])
        if base == "self" and owner:
            kin = self.outline.kin(owner)
            found = [span for span in found if self._owner(span[0]) in kin] or found
        return found or self._bindings.get(attribute, [])

    def _owner(self, place: int) -> str:
        function = self.outline.around(place)
        return function.owner if function else ""

    def _statement(self, start: int, place: int) -> bytes:
        """The text from a place to the end of the statement whose line begins at `start`."""
        line_end = self.data.find(b"\n", place)
        line = self.data[place : line_end if line_end >= 0 else len(self.data)]
        if line.count(b"(") + line.count(b"[") <= line.count(b")") + line.count(b"]"):
            return line
        indent = len(self.data[start:place]) - len(self.data[start:place].lstrip(b" \t"))
        end = re.compile(rb"^[ \t]{0,%d}\S" % indent, re.M).search(self.data, line_end + 1)
        return self.data[place : end.start() if end else len(self.data)]


def _called_in(value: bytes) -> Iterable[bytes]:
    """The names that are called in a value."""
    return (_NAME if _UNUSUAL.search(value) else _MADE).findall(value)
