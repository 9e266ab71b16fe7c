"""Programs for a later Python than the running one: their f-strings are rewritten without moving anything.

LibCST parses them. Since Python 3.12 an f-string may contain its own quotes and backslashes between its braces. Other
quotes and another character of the same width replace them, so every line and column stays the same.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from contextlib import suppress

import libcst as cst

from torchlint.files.python import UNREADABLE, python_tree
from torchlint.files.source import NewerSyntax, SourceFile, SyntaxProblem

_INSTEAD_OF_A_BACKSLASH = "/"
_OTHER_QUOTES = str.maketrans("'\"", "\"'")


def read_again(source: SourceFile, problem: SyntaxProblem) -> ast.Module:
    """The tree of a program that Python's parser refuses.

    Raises `NewerSyntax` if a later Python accepts it, and `SyntaxProblem` if none does.
    """
    rewriting = _Rewriting()
    try:
        rewritten = cst.parse_module(source.text).visit(rewriting).code
    except (cst.ParserSyntaxError, cst.CSTValidationError, RecursionError):
        raise problem from None
    here = sys.version_info[:2]
    running = f"Python {_shown(here)}, on which"
    if rewriting.needed <= here:
        message = f"{running} torchlint runs here, cannot read this: {problem.message}"
        raise SyntaxProblem(message, problem.position)
    if rewriting.is_whole:
        with suppress(*UNREADABLE):
            return python_tree(rewritten)
    message = (
        f"run torchlint under Python {_shown(rewriting.needed)} or later: {running} it runs here, cannot read this"
    )
    raise NewerSyntax(message, problem.position)


def _shown(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


class _Rewriting(cst.CSTTransformer):
    """Rewrites f-strings for older Pythons, and finds the Python version that a program needs."""

    def __init__(self) -> None:
        super().__init__()
        self.needed: tuple[int, ...] = ()
        self.is_whole = True
        """Whether every f-string could be rewritten: one can contain two kinds of quotes, not more."""
        self._around: list[str] = []
        """The current quotes of the f-strings around a node."""

    def _need(self, *version: int) -> None:
        self.needed = max(self.needed, version)

    def visit_TryStar(self, node: cst.TryStar) -> None:
        self._need(3, 11)

    def visit_TypeAlias(self, node: cst.TypeAlias) -> None:
        self._need(3, 12)

    def visit_TypeParameters(self, node: cst.TypeParameters) -> None:
        self._need(3, 12)

    def visit_TemplatedString(self, node: cst.CSTNode) -> None:
        self._need(3, 14)

    def visit_Comment(self, node: cst.Comment) -> None:
        if self._around:
            self._need(3, 12)

    def visit_Newline(self, node: cst.Newline) -> None:
        if any(len(quotes) == 1 for quotes in self._around):
            self._need(3, 12)

    def visit_FormattedString(self, node: cst.FormattedString) -> None:
        self._around.append(self._quotes(node.end))

    def leave_FormattedString(
        self, original_node: cst.FormattedString, updated_node: cst.FormattedString
    ) -> cst.BaseExpression:
        quotes = self._around.pop()
        return updated_node.with_changes(start=updated_node.start.replace(updated_node.end, quotes), end=quotes)

    def leave_FormattedStringText(
        self, original_node: cst.FormattedStringText, updated_node: cst.FormattedStringText
    ) -> cst.BaseFormattedStringContent:
        *around, quotes = self._around
        return updated_node.with_changes(value=self._text(updated_node.value, quotes, around))

    def leave_SimpleString(self, original_node: cst.SimpleString, updated_node: cst.SimpleString) -> cst.BaseExpression:
        prefix = updated_node.value[: len(updated_node.prefix)]
        quotes = self._quotes(updated_node.quote)
        text = self._text(updated_node.raw_value, quotes, self._around)
        return updated_node.with_changes(value=f"{prefix}{quotes}{text}{quotes}")

    def _quotes(self, written: str) -> str:
        """The quotes for a string between the braces of others: quotes that end none of those."""
        if not any(_ends(written, quotes) for quotes in self._around):
            return written
        self._need(3, 12)
        return written.translate(_OTHER_QUOTES)

    def _text(self, text: str, quotes: str, around: Sequence[str]) -> str:
        """The text of a string in quotes, between the braces of others."""
        if not around:
            return text
        plain = text.replace("\\", _INSTEAD_OF_A_BACKSLASH)
        if plain != text or any(outer in text for outer in around):
            self._need(3, 12)
        if quotes[0] in plain or any(outer in plain for outer in around):
            self.is_whole = False
        return plain


def _ends(quotes: str, outer: str) -> bool:
    """Whether quotes end the string around them, for a parser that ignores braces."""
    return quotes[0] == outer[0] and (len(outer) == 1 or len(quotes) == 3)
