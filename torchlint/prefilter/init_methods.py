"""The `__init__` methods of a file that may do something before that of the class above."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Set
from dataclasses import dataclass

from torchlint.files.python import UNREADABLE
from torchlint.lazy_pattern import LazyPattern
from torchlint.prefilter.names import last
from torchlint.prefilter.outline import WORD, Outline, decoded

_BEGIN = LazyPattern(rb"\n[ \t]*super\([^()\n]*\)\.__init__\(")
_ATTRIBUTE = LazyPattern(rb"\.\s*(?:#[^\n]*\s*)?%s[\s)]*(?::[^=\n]*)?=(?!=)" % WORD)
_CLASS = LazyPattern(rb"\n[ \t]*class[ \t]+(%s)([^\n]*)" % WORD)
_QUOTES = (b'"""', b"'''")
_HEAD = LazyPattern(rb"[ \t]*(?:\(([\w., \t]*)\))?[ \t]*:")
_NO_MODULES = frozenset("object Dataset IterableDataset Function Optimizer Sampler Callback TestCase".split())
"""Classes that are no modules, by the names that everybody knows them by."""


@dataclass(frozen=True)
class Initializer:
    """An `__init__`, and the file that it stands in."""

    node: ast.FunctionDef | ast.AsyncFunctionDef
    outline: Outline

    def may_make_module(self, call: ast.Call) -> bool:
        """Whether a call may make an object: of what is no name it is not known, and most names of classes are."""
        name = last(call.func)
        made = self.outline.aliases.get(name, name)
        return not made or made in self.outline.bases or not made[:1].islower()


def initializers(outline: Outline) -> Iterator[Initializer | None]:
    """Those that do not plainly begin with that of the class above; None for what cannot be read."""
    others = _NO_MODULES - outline.bases.keys() - outline.aliases.keys()
    heads_of = _heads(outline)
    for function in outline.functions:
        text = outline.text(function)
        heads = heads_of.get(function.owner, [])
        plain = function.name == "__init__" and (_is_plain(text) or _are_of_no_module(heads, others))
        if b"__init__" not in text or plain:
            continue
        try:
            for node in ast.walk(outline.tree(function)):
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == "__init__":
                    yield Initializer(node, outline)
        except UNREADABLE:
            yield None


def _is_plain(text: bytes) -> bool:
    """Whether a method surely begins with the `__init__` of the class above."""
    begin = _BEGIN.search(text)
    before = text[: begin.start()] if begin else text
    is_string = any(before.count(quotes) % 2 for quotes in _QUOTES)
    return begin is not None and not is_string and not _ATTRIBUTE.search(before)


def _heads(outline: Outline) -> dict[str, list[bytes]]:
    """By the name of a class the rest of each line in which one of that name begins."""
    found: dict[str, list[bytes]] = {}
    for name, head in _CLASS.findall(outline.data):
        found.setdefault(decoded(name), []).append(head)
    return found


def _are_of_no_module(heads: list[bytes], others: Set[str]) -> bool:
    return bool(heads) and all(_is_of_no_module(head, others) for head in heads)


def _is_of_no_module(head: bytes, others: Set[str]) -> bool:
    """Whether a class surely is none of modules, by the rest of the line in which it begins."""
    plain = _HEAD.match(head)
    bases = plain[1].split(b",") if plain and plain[1] else []
    return plain is not None and (
        not bases or any(decoded(base.rpartition(b".")[2].strip()) in others for base in bases)
    )
