"""Where in a file something may be changed in place: found in bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from torchlint.prefilter.outline import BINDING, WORD, Function, Outline, bound_names, decoded, finds
from torchlint.pytorch.autograd_table import INPLACE, INPLACE_MODULES

_TARGET = re.compile(
    rb"(?:[ \t]*(?:if|elif|else|for|while|with|try|except|finally|async)\b[^\n]*:|[^\n]*;)?"
    rb"(?:[ \t]*[A-Za-z_\x80-\xff][\w.\x80-\xff]*[ \t]*=(?!=))*"
    rb"(?:[ \t]*[\[{(][^\n]*|[ \t(]*(?:[A-Za-z_\x80-\xff][\w.\x80-\xff]*[ \t]*([\[(][^\n]*)?|\])[ \t]*[*/]?)$"
)
"""What a statement changes, up to the operator: with what follows the name, from the first bracket on."""
_ELEMENT = re.compile(rb"\][ \t]*=(?!=)")
_ELEMENT_OF_TUPLE = re.compile(
    rb"\n[ \t]*(?:[(\[]?[A-Za-z_\x80-\xff][\w.\x80-\xff]*\[[^\n=]*|[(\[][^\n=]*)\][ \t]*,[^\n=]*=(?!=)"
)
_KEY = re.compile(rb"\[[ \t]*[fr]?([\"'])[^\"'\n]*\1[ \t]*\]$")
_NO_TENSOR = re.compile(rb"[ \t]*(?:[fr]?[\"']|\[(?![^\n]*\][ \t]*[\[*@/+-])|len\(|\([^()\n]*,[ \t]*\))")
_BRACKET = re.compile(rb"[()]")
_LAST_NAME = re.compile(WORD + rb"$")
_CALLED = re.compile(rb"[^()\n]*\)\(")
_BOUND = re.compile(rb"\w|[ \t]*=(?!=)")
_KEYS = re.compile(rb"[\"']out[\"']\s*:")
_FLAG = re.compile(rb"inplace(?:\s*=(?!=)|[\"']\s*:)")
_BEFORE_ARGUMENT = re.compile(rb"[(,](?:\s|#[^\n]*\n)*$")
_ARGUMENT = re.compile(rb"out\s+=(?!=)")
_METHOD = re.compile(rb"_(?=[()\]},;\s'\"])")
"""The end of the name of a method in place that is called, handed on, or asked of `getattr`."""
_INPLACE = frozenset(name.encode() for name in INPLACE)
_MODULE = re.compile(rb"(?:%s)\([^\n]*$" % "|".join(sorted(INPLACE_MODULES)).encode())


class Places:
    """The places of a file at which something may be changed in place."""

    def __init__(self, outline: Outline) -> None:
        self.outline = outline
        self.data = outline.data

    def functions(self) -> Iterator[Function | None]:
        """Each function that changes something; None for what is outside of all functions."""
        return iter(dict.fromkeys(self.outline.around(place) for place in self._all()))

    def _all(self) -> Iterator[int]:
        yield from self._augmented()
        yield from self._elements()
        yield from self._methods()
        yield from self._outs()
        for place in (*self._named_flags(), *self._flags()):
            yield from self._of_flag(place)

    def _outs(self) -> Iterator[int]:
        """`out=y` among arguments, and a key of that name."""
        yield from (place for place in finds(self.data, b"out=") if not self.outline.continues(place))
        for place in (found.start() for found in _ARGUMENT.finditer(self.data)):
            if not self.outline.continues(place) and _BEFORE_ARGUMENT.search(self.data, max(0, place - 200), place):
                yield place
        yield from (found.start() for found in _KEYS.finditer(self.data))

    def _named_flags(self) -> Iterator[int]:
        """`inplace=True`, and a key of that name."""
        for place in finds(self.data, b"inplace"):
            if _FLAG.match(self.data, place):
                yield place

    def _flags(self) -> Iterator[int]:
        """`nn.ReLU(True)`: the flag without its name."""
        for place in finds(self.data, b"True)"):
            if _MODULE.search(self.data, self.outline.line_start(place), place):
                yield place

    def _of_flag(self, place: int) -> Iterator[int]:
        """Where a flag takes effect: at its call, or wherever the module is used that it is an argument of."""
        callee = decoded(self._callee(place))
        made = self.outline.aliases.get(callee, callee)
        if not made[:1].isupper() or _CALLED.match(self.data, place):
            yield place
        if made and not made[:1].isupper():
            return
        names = self.outline.binding(place)
        if not names and (function := self.outline.around(place)) is not None:
            for owner in (b"", b"self."):
                yield from self._uses_of_what_is(owner + function.name.encode() + b"(")
        for name in names:
            if name.startswith(b"self."):
                yield from self._uses(name)
            else:
                yield place
                yield from self._uses_of_what_is(name)
                yield from self._uses_of_what_holds(name)

    def _uses_of_what_holds(self, value: bytes) -> Iterator[int]:
        """Where something that an object holds is used that was made of a value: `Sequential(*layers)`."""
        for place in finds(self.data, value):
            if self.data[place - 1 : place] in (b"(", b"*", b" ") and not _BOUND.match(self.data, place + len(value)):
                for name in self.outline.binding(place):
                    yield from self._uses(name) if name.startswith(b"self.") else ()

    def _uses_of_what_is(self, value: bytes) -> Iterator[int]:
        """Where something is used that is bound to a value."""
        for found in finds(self.data, b"= " + value):
            binding = BINDING.match(self.data, self.outline.line_start(found))
            for name in bound_names(binding[1]) if binding else ():
                yield from self._uses(name) if name.startswith(b"self.") else [found]

    def _callee(self, place: int) -> bytes:
        """The name of what is called with an argument."""
        start, depth = max(0, place - 400), 0
        for bracket in reversed(list(_BRACKET.finditer(self.data, start, place))):
            depth += 1 if bracket[0] == b")" else -1
            if depth < 0:
                name = _LAST_NAME.search(self.data, start, bracket.start())
                return name[0] if name else b""
        return b""

    def _uses(self, name: bytes) -> Iterator[int]:
        """Where something that an object holds is read."""
        for place in finds(self.data, name):
            if not _BOUND.match(self.data, place + len(name)):
                yield place

    def _augmented(self) -> Iterator[int]:
        for operator in (b"+=", b"-=", b"*=", b"/=", b"@="):
            for place in finds(self.data, operator):
                start = self.outline.line_start(place)
                target = _TARGET.match(self.data, start, place)
                if target and not _NO_TENSOR.match(self.data, place + 2):
                    yield place

    def _elements(self) -> Iterator[int]:
        for found in _ELEMENT.finditer(self.data):
            place = found.start()
            target = _TARGET.match(self.data, self.outline.line_start(place), place + 1)
            if target and not (target[1] and _KEY.match(target[1])):
                yield place
        yield from (found.end() for found in _ELEMENT_OF_TUPLE.finditer(self.data))

    def _methods(self) -> Iterator[int]:
        for place in (found.start() for found in _METHOD.finditer(self.data)):
            start = place
            while self.data[start - 1 : start].isalnum() or self.data[start - 1 : start] == b"_":
                start -= 1
            if self.data[start : place + 1] in _INPLACE and self.data[max(0, start - 5) : start] != b"init.":
                yield place
