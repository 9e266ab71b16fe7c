"""Repeated parsing of a changed text: unchanged top-level statements keep their nodes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import libcst as cst

from torchlint.files.lines import Text
from torchlint.files.python import python_tree

_INDENTED = re.compile(r"^[ \t]+[^ \t\r\n#]", re.MULTILINE)
_PECULIAR = re.compile(r"\f|^[ \t]*\\", re.MULTILINE)
"""Lines whose LibCST nodes depend on the text before them: form feeds, and continuation lines."""
_Statement: TypeAlias = cst.SimpleStatementLine | cst.BaseCompoundStatement


class _Indivisible(Exception):
    """A text whose statements cannot be parsed one by one."""


@dataclass(frozen=True)
class _Piece:
    """One top-level statement, with the comments and empty lines before it."""

    text: str
    module: cst.Module
    statement: _Statement

    @classmethod
    def parsed(cls, text: str, is_first: bool) -> _Piece:
        module = cst.parse_module(text)
        if len(module.body) != 1:
            raise _Indivisible
        statement = module.body[0]
        if module.header and not is_first:
            statement = statement.with_changes(leading_lines=(*module.header, *statement.leading_lines))
        return cls(text, module, statement)

    @property
    def indent(self) -> set[str]:
        return {self.module.default_indent} if _INDENTED.search(self.text) else set()

    @property
    def newline(self) -> set[str]:
        return {self.module.default_newline} if self.text.endswith(("\n", "\r")) else set()


class Pieces:
    """Parses successive forms of a text."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, bool], list[_Piece]] = {}
        self.printed: dict[int, str] = {}
        """The code of statements of the latest module, by the identity of their nodes."""

    def module(self, text: str) -> cst.Module:
        """The result of `libcst.parse_module`; raises `libcst.ParserSyntaxError`."""
        try:
            pieces = self._parsed(_split(text))
            module = _assembled(pieces)
        except (_Indivisible, SyntaxError, ValueError, RecursionError, MemoryError, cst.ParserSyntaxError):
            self.printed = {}
            return cst.parse_module(text)
        self._known = {}
        for number, piece in enumerate(pieces):
            self._known.setdefault((piece.text, not number), []).append(piece)
        self.printed = {id(piece.statement): piece.text for piece in pieces[1:-1]}
        return module

    def _parsed(self, texts: list[str]) -> list[_Piece]:
        known = {key: list(pieces) for key, pieces in self._known.items()}  # a node has one place in a tree
        found = []
        for number, text in enumerate(texts):
            same = known.get((text, not number))
            found.append(same.pop() if same else _Piece.parsed(text, not number))
        return found


def _split(text: str) -> list[str]:
    """The text in pieces that each end with the last line of a top-level statement; raises `SyntaxError`."""
    if _PECULIAR.search(text):
        raise _Indivisible
    body = python_tree(text).body
    ends = [one.end_lineno or 0 for one, two in pairwise(body) if two.lineno > (one.end_lineno or 0)]
    if not ends:
        raise _Indivisible
    starts = Text(text).starts
    offsets = [0, *(starts[line] for line in ends), len(text)]
    return [text[start:end] for start, end in pairwise(offsets)]


def code_of_statements(module: cst.Module, text: str) -> dict[int, str]:
    """The code of a module's top-level statements, by the identity of their nodes; without the first and last.

    Those include the text before and after all statements. Empty if statements and code cannot be matched.
    """
    try:
        pieces = _split(text)
    except (_Indivisible, SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    if len(pieces) != len(module.body):
        return {}
    return {id(statement): piece for statement, piece in list(zip(module.body, pieces, strict=True))[1:-1]}


def _assembled(pieces: list[_Piece]) -> cst.Module:
    """The module of all pieces, if they agree on its defaults."""
    first, last = pieces[0].module, pieces[-1].module
    indents = {indent for piece in pieces for indent in piece.indent}
    newlines = {newline for piece in pieces for newline in piece.newline}
    if len(indents) > 1 or len(newlines) > 1 or any(piece.module.footer for piece in pieces[:-1]):
        raise _Indivisible
    return cst.Module(
        body=[piece.statement for piece in pieces],
        header=first.header,
        footer=last.footer,
        default_indent=indents.pop() if indents else first.default_indent,
        default_newline=newlines.pop() if newlines else first.default_newline,
        has_trailing_newline=last.has_trailing_newline,
    )
