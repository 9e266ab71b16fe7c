"""Files parsed by Python's own parser: their trees, or their errors."""

from __future__ import annotations

import ast

from torchlint.files.python import python_tree
from torchlint.files.source import SourceError, SourceFile, SyntaxProblem
from torchlint.finding import Position
from torchlint.syntax import nesting
from torchlint.syntax.deep_stack import with_deep_stack
from torchlint.syntax.gc_pause import collector_paused
from torchlint.syntax.python_tree import PythonTree


def read(source: SourceFile) -> PythonTree:
    """The tree of a file; raises `SyntaxProblem`, or `SourceError` if it is no text or too deep to be parsed.

    The problem is a `NewerSyntax` if a later Python accepts the file.
    """
    return PythonTree(_parsed(source), source)


def _parsed(source: SourceFile) -> ast.Module:
    refuse_depth(source)
    try:
        return python_tree(source.text)
    except SyntaxError as error:
        problem = python_problem(error, source)
    except ValueError as error:
        raise SourceError(str(error)) from None
    from torchlint.syntax.newer_python import read_again  # LibCST takes longer to import than most files take

    return read_again(source, problem)


def check(source: SourceFile) -> None:
    """Raise the errors of `read`."""
    with collector_paused():
        with_deep_stack(lambda: _parsed(source))


def is_python(source: SourceFile) -> bool:
    """Whether a file can be parsed."""
    try:
        check(source)
    except (SyntaxProblem, SourceError, RecursionError, MemoryError):
        return False
    return True


def refuse_depth(source: SourceFile) -> None:
    """Raise `SyntaxProblem` or `SourceError` for code nested too deeply for a parser."""
    if nesting.may_be_too_deep(source.code) and (excess := nesting.first_excess(source.text)):
        position = source.position(excess.offset)
        if excess.invalid:
            raise SyntaxProblem(excess.message, position)
        raise SourceError(excess.message, position.line)


def python_problem(error: SyntaxError, source: SourceFile) -> SyntaxProblem:
    """The error of Python's parser for a text, and its position."""
    line, column = error.lineno or 1, max((error.offset or 1) - 1, 0)
    return SyntaxProblem(error.msg, Position(line, min(column, len(source.line(line)))))
