"""What a finding claims of a running program: which lines count, which blocks, which names to look at."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torchlint.files.python import python_tree
from torchlint.finding import Finding, Position, Severity, Span
from torchlint.verify.paths import AccessPath, expressions_of, longest_path, path_of, paths_in

Lines = tuple[int, int]
"""First and last line."""
_COMPOUND = (
    ast.With,
    ast.AsyncWith,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.If,
    ast.Try,
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.Match,
)
_NAMES = 40
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)


@dataclass(frozen=True)
class Claim:
    """A finding as questions to a running program. `file` is a real path."""

    index: int
    rule: str
    file: str
    statement: Lines
    """The lines of the flagged statement; of a compound one, its header."""
    reach: Lines
    """The lines whose running means that the finding was reached."""
    lines: tuple[Lines, ...]
    """The flagged statement and those it is about: the step, the backward, the loop."""
    scope: Lines
    """The function, or module, around it."""
    blocks: tuple[Lines, ...]
    """Bodies in which gradients are off; where calls of a function are to be counted, its first statement; where steps
    are, these, and the backward that they belong to."""
    names: tuple[AccessPath, ...] = ()
    container: tuple[AccessPath, ...] = ()
    resets: tuple[Lines, ...] = ()
    """Statements that empty the container, in the innermost loop that fills it."""
    raises: bool = True
    """Whether the finding says that PyTorch will raise."""

    def plan(self, file: int) -> dict[str, Any]:
        """What the probe needs to know of it; `file` is a number in the plan's list."""
        return {
            "index": self.index,
            "rule": self.rule,
            "file": file,
            "statement": self.statement,
            "reach": self.reach,
            "blocks": self.blocks,
            "names": self.names,
            "container": self.container,
            "resets": self.resets,
        }


def claim(index: int, finding: Finding, file: str, source: bytes) -> Claim:
    """The claim of a finding in a file with this text; raises `SyntaxError` and `ValueError` as `ast.parse` does."""
    tree = python_tree(source)
    statements = list(_statements(tree))
    flagged = _statement_at(statements, finding.span.start)
    related = [_statement_at(statements, item.span.start) for item in finding.related]
    everything = [statement for statement in (flagged, *related) if statement is not None]
    header = _header(flagged) if flagged else _span_lines(finding.span)
    function = _function_around(statements, header)
    names, container = _watched(finding.name, flagged, function)
    blocks: list[Lines] = []
    if finding.name == "training-under-no-grad":
        blocks = _blocks(everything, function, statements)
        names = _named_in(statements, blocks)
    reach = _reach(flagged, header)
    if finding.name == "module-created-in-forward" and function is not None:
        blocks = [_beginning(function)]
    if finding.name == "lopsided-accumulation":
        blocks = [_header(item) for item in everything[1:]] or [_body(item) for item in everything]
    if finding.name == "backward-arity":
        name, reach = _function_class(statements, header, reach)
        names = ((name,),)
    return Claim(
        index,
        finding.name,
        file,
        header,
        reach,
        tuple(_header(statement) for statement in everything) or (header,),
        _body(function) if function is not None else (1, len(source.splitlines()) + 1),
        tuple(blocks),
        names,
        container,
        _resets(statements, flagged, container),
        finding.severity is not Severity.WARNING,
    )


def _span_lines(span: Span) -> Lines:
    return (span.start.line, max(span.start.line, span.end.line))


def _statements(tree: ast.AST) -> Iterator[ast.stmt]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.stmt))


def _first_line(statement: ast.stmt) -> int:
    decorators: Sequence[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(decorator.lineno for decorator in decorators)])


def _last_line(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


def _statement_at(statements: Iterable[ast.stmt], place: Position) -> ast.stmt | None:
    """The smallest statement at a place; of several on one line the one at the column."""
    found = [item for item in statements if _first_line(item) <= place.line <= _last_line(item)]
    at_column = [item for item in found if (_first_line(item), item.col_offset) <= (place.line, place.column)]
    candidates = at_column or found
    return max(candidates, key=lambda item: (_first_line(item), item.col_offset), default=None)


def _header(statement: ast.stmt) -> Lines:
    """The lines of a statement; of a compound one those before its body."""
    first = _first_line(statement)
    if isinstance(statement, _COMPOUND):
        body = getattr(statement, "body", None) or getattr(statement, "cases", [])
        start = body[0].lineno if isinstance(body[0], ast.stmt) else body[0].pattern.lineno
        return first, max(first, start - 1)
    return first, _last_line(statement)


def _body(statement: ast.stmt) -> Lines:
    body: list[ast.stmt] = getattr(statement, "body", [statement])
    return body[0].lineno, _last_line(body[-1])


def _function_around(statements: Iterable[ast.stmt], lines: Lines) -> ast.stmt | None:
    around = [item for item in statements if isinstance(item, _FUNCTIONS) and _encloses(item, lines)]
    return max(around, key=_first_line, default=None)


def _encloses(function: ast.stmt, lines: Lines) -> bool:
    return _first_line(function) <= lines[0] and lines[1] <= _last_line(function)


def _reach(flagged: ast.stmt | None, header: Lines) -> Lines:
    """A decorator runs when its function is made; the claim is about its body."""
    if isinstance(flagged, _FUNCTIONS):
        return _body(flagged)
    return header


def _beginning(function: ast.stmt) -> Lines:
    """The first statement of a function that runs: docstrings and declarations do not."""
    body: list[ast.stmt] = getattr(function, "body", [function])
    return _header(next(filter(_runs, body), body[-1]))


def _runs(statement: ast.stmt) -> bool:
    is_constant = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return not is_constant and not isinstance(statement, (ast.Global, ast.Nonlocal))


def _function_class(statements: Iterable[ast.stmt], lines: Lines, reach: Lines) -> tuple[str, Lines]:
    """The name of the class around these lines, and what runs when it goes backward; or else `reach`."""
    classes = [item for item in statements if isinstance(item, ast.ClassDef) and _encloses(item, lines)]
    if not classes:
        return "", reach
    innermost = max(classes, key=_first_line)
    named = (item for item in innermost.body if isinstance(item, _FUNCTIONS) and item.name == "backward")
    return innermost.name, next((_body(item) for item in named), reach)


def _blocks(found: list[ast.stmt], function: ast.stmt | None, statements: list[ast.stmt]) -> list[Lines]:
    """Where gradients are off, as far as the finding shows it; or else the function that it is in."""
    blocks = [_body(item) for item in found if isinstance(item, (ast.With, ast.AsyncWith, *_FUNCTIONS))]
    for item in found:
        if not isinstance(item, _COMPOUND) and "set_grad_enabled" in ast.unparse(item):
            around = _function_around(statements, _header(item))
            last = _last_line(around) if around is not None else max(map(_last_line, statements))
            blocks.append((_last_line(item), last))
    if not blocks and function is not None:
        blocks.append(_body(function))
    return blocks or [_header(item) for item in found]


# -- names


def _named_in(statements: Iterable[ast.stmt], blocks: Sequence[Lines]) -> tuple[AccessPath, ...]:
    """What the statements of these lines name."""
    inside = [item for item in statements if any(first <= item.lineno <= last for first, last in blocks)]
    paths = (path for item in inside for expression in expressions_of(item) for path in paths_in(expression))
    return tuple(dict.fromkeys(paths))[:_NAMES]


def _watched(
    rule: str, flagged: ast.stmt | None, function: ast.stmt | None
) -> tuple[tuple[AccessPath, ...], tuple[AccessPath, ...]]:
    """The names that the observers of a rule look at, and the container that one keeps something in."""
    if flagged is None:
        return (), ()
    if rule.startswith("undetached-"):
        container = _container(flagged, expressions_of(flagged))
        return _named_by(flagged), () if container is None else (container,)
    if rule == "dropout-ignores-mode":
        return _first_parameter(function), ()
    look = _named_by if rule.startswith("inplace-") else _LOOKED_AT.get(rule)
    return (look(flagged) if look is not None else ()), ()


def _named_by(statement: ast.stmt) -> tuple[AccessPath, ...]:
    """All that a statement names."""
    return tuple(dict.fromkeys(path for item in expressions_of(statement) for path in paths_in(item)))


def _targets(statement: ast.stmt) -> tuple[AccessPath, ...]:
    """What an assignment binds."""
    targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
    return tuple(path for target in targets if isinstance(target, ast.expr) for path in paths_in(target))


def _receiver(statement: ast.stmt) -> tuple[AccessPath, ...]:
    """The object of a statement that is a method call, if it can be named."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    owner = call.func.value if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else None
    path = path_of(owner) if owner is not None else None
    return () if path is None else (path,)


def _first_parameter(function: ast.stmt | None) -> tuple[AccessPath, ...]:
    """What a method calls its object."""
    if not isinstance(function, _FUNCTIONS):
        return ()
    parameters = (*function.args.posonlyargs, *function.args.args)
    return ((parameters[0].arg,),) if parameters else ()


_LOOKED_AT: Mapping[str, Callable[[ast.stmt], tuple[AccessPath, ...]]] = {
    "discarded-result": _receiver,
    "module-created-in-forward": _targets,
    "parameter-lost-by-move": _targets,
    "scheduler-before-optimizer": _named_by,
    "scheduler-never-stepped": _targets,
    "training-in-eval-mode": _named_by,
}
"""What is looked at when a flagged statement of these rules runs."""


def _container(statement: ast.stmt, expressions: list[ast.expr]) -> AccessPath | None:
    """What the statement keeps something in: the target of an assignment, the object of a method call."""
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = list(statement.targets)
    elif isinstance(statement, (ast.AugAssign, ast.AnnAssign)):
        targets = [statement.target]
    methods = (
        node.func.value
        for expression in expressions
        for node in ast.walk(expression)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    )
    paths = (longest_path(target) for target in (*targets, *methods))
    return next((path for path in paths if path is not None), None)


def _resets(
    statements: Sequence[ast.stmt], flagged: ast.stmt | None, container: tuple[AccessPath, ...]
) -> tuple[Lines, ...]:
    """Statements that empty the container, in the innermost loop around the flagged one and in its function."""
    if flagged is None or not container:
        return ()
    around = [item for item in statements if isinstance(item, (*_LOOPS, *_FUNCTIONS)) and _has_inside(item, flagged)]
    innermost = max(around, key=_first_line, default=None)
    if not isinstance(innermost, _LOOPS):
        return ()
    return tuple(
        _header(item)
        for item in statements
        if item is not flagged and _has_inside(innermost, item) and _empties(item, container[0])
    )


def _has_inside(around: ast.stmt, statement: ast.stmt) -> bool:
    first, last = _body(around)
    return around is not statement and first <= statement.lineno and _last_line(statement) <= last


def _empties(statement: ast.stmt, container: AccessPath) -> bool:
    """Whether it is `x.clear()`, `del x[...]`, or binds `x` to something that is not made of it."""
    if isinstance(statement, ast.Delete):
        return any(isinstance(item, ast.Subscript) and path_of(item.value) == container for item in statement.targets)
    if isinstance(statement, ast.Assign):
        is_new = container not in set(paths_in(statement.value))
        return is_new and any(path_of(target) == container for target in statement.targets)
    call = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "clear":
        return path_of(call.func.value) == container
    return False
