"""The `__init__` methods of a file that may do something before that of the class above."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Set
from dataclasses import dataclass

from torchlint.files.python import UNREADABLE
from torchlint.prefilter.names import last
from torchlint.prefilter.outline import WORD, Function, Outline, decoded

_BEGIN = re.compile(rb"\n[ \t]*super\([^()\n]*\)\.__init__\(")
_ATTRIBUTE = re.compile(rb"\.\s*(?:#[^\n]*\s*)?%s[\s)]*(?::[^=\n]*)?=(?!=)" % WORD)
_QUOTES = (b'"""', b"'''")
_HEAD = re.compile(rb"[ \t]*(?:\(([\w., \t]*)\))?[ \t]*:")
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
    for function in outline.functions:
        text = outline.text(function)
        if b"__init__" not in text or (function.name == "__init__" and _is_plain(outline, function, text)):
            continue
        try:
            for node in ast.walk(outline.tree(function)):
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == "__init__":
                    yield Initializer(node, outline)
        except UNREADABLE:
            yield None


def _is_plain(outline: Outline, function: Function, text: bytes) -> bool:
    """Whether a method surely is of no module, or begins with the `__init__` of the class above."""
    heads = _heads(outline, function.owner)
    others = _NO_MODULES - outline.bases.keys() - outline.aliases.keys()
    if heads and all(_is_of_no_module(head, others) for head in heads):
        return True
    begin = _BEGIN.search(text)
    before = text[: begin.start()] if begin else text
    is_string = any(before.count(quotes) % 2 for quotes in _QUOTES)
    return begin is not None and not is_string and not _ATTRIBUTE.search(before)


def _heads(outline: Outline, name: str) -> list[bytes]:
    """The rest of each line in which a class of a name begins."""
    found = re.finditer(rb"\n[ \t]*class[ \t]+%s\b([^\n]*)" % re.escape(name.encode()), outline.data)
    return [head[1] for head in found]


def _is_of_no_module(head: bytes, others: Set[str]) -> bool:
    """Whether a class surely is none of modules, by the rest of the line in which it begins."""
    plain = _HEAD.match(head)
    bases = plain[1].split(b",") if plain and plain[1] else []
    return plain is not None and (
        not bases or any(decoded(base.rpartition(b".")[2].strip()) in others for base in bases)
    )
