"""Edits of rules: from edits on nodes to edits of the text, with comments and formatting kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import libcst as cst

from torchlint.files.lines import comments
from torchlint.finding import Edit, Fix, Position, Safety, Span
from torchlint.syntax.tree import Tree, children, walk

_STRINGS = (cst.SimpleString, cst.FormattedString)
_ATOMS = (cst.Name, cst.Attribute, cst.Call, cst.Subscript)


class Unfixable(Exception):
    """The code is written in a form that rules out the edit."""


class NodeEdit(ABC):
    """One change at a node."""

    node: cst.CSTNode

    @property
    def around(self) -> Sequence[cst.CSTNode]:
        """The nodes whose surroundings the change depends on."""
        return (self.node,)

    @abstractmethod
    def edits(self, layout: Layout) -> Iterator[Edit]:
        """The change as text; raises `Unfixable`."""


@dataclass(frozen=True)
class Change:
    """A fix on nodes. `message` says in the imperative what it does; a safe one needs no review."""

    message: str
    edits: Sequence[NodeEdit]
    safety: Safety = Safety.UNSAFE

    def surroundings(self, tree: Tree) -> Iterator[cst.CSTNode]:
        """The nodes whose places decide the text of the change."""
        for edit in self.edits:
            for node in edit.around:
                yield from _surroundings(tree, node)

    def fix(self, tree: Tree, spans: Mapping[cst.CSTNode, Span]) -> Fix | None:
        """The fix as text; None if it is not possible."""
        layout = Layout(tree, spans)
        try:
            made = [edit for node_edit in self.edits for edit in node_edit.edits(layout)]
        except Unfixable:
            return None
        return Fix(self.message, tuple(made), self.safety)


def _surroundings(tree: Tree, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """A node with its ancestors and neighbors.

    Without the statements next to its own, which no edit changes: then unchanged statements of a file need no new
    printing.
    """
    for item in (node, *tree.ancestors(node)):
        if item is not tree.module:
            yield item
        if not isinstance(item, (cst.Module, cst.IndentedBlock)):
            yield from children(item)
    for suite in children(node):
        yield from children(suite) if isinstance(suite, cst.BaseSuite) else ()
    yield from (item for item in walk(tree.statement(node)) if isinstance(item, _STRINGS))


class Layout:
    """The text around nodes."""

    def __init__(self, tree: Tree, spans: Mapping[cst.CSTNode, Span]) -> None:
        self.tree = tree
        self._spans = spans
        self.source = tree.source
        self._lines = tree.source.program_lines

    def span(self, node: cst.CSTNode) -> Span:
        return self._spans[node]

    def start(self, node: cst.CSTNode) -> Position:
        return self._spans[node].start

    def end(self, node: cst.CSTNode) -> Position:
        return self._spans[node].end

    def line(self, number: int) -> str:
        return self._lines[number - 1] if number <= len(self._lines) else ""

    def indentation(self, number: int) -> str:
        line = self.line(number)
        return line[: len(line) - len(line.lstrip())]

    @property
    def newline(self) -> str:
        return self.source.newline

    def text(self, span: Span) -> str:
        return self.source.text[self.source.offset(span.start) : self.source.offset(span.end)]

    def same_cell(self, first: int, second: int) -> bool:
        return self.source.cell(first) is self.source.cell(second)

    def small_statement(self, node: cst.CSTNode) -> tuple[cst.CSTNode, cst.CSTNode]:
        """The simple statement around a node, and the line or suite that holds it; raises `Unfixable`."""
        parent = self.tree.parent(node)
        while parent is not None and not isinstance(parent, (cst.SimpleStatementLine, cst.SimpleStatementSuite)):
            if isinstance(parent, (cst.BaseCompoundStatement, cst.Lambda)):
                raise Unfixable
            node, parent = parent, self.tree.parent(parent)
        if parent is None:
            raise Unfixable
        return node, parent

    def inside_strings(self, statement: cst.CSTNode) -> set[int]:
        """The lines of a statement that begin inside a string, where white space is part of the string."""
        found: set[int] = set()
        for item in walk(statement):
            if isinstance(item, _STRINGS) and item in self._spans:
                found.update(range(self.start(item).line + 1, self.end(item).line + 1))
        return found

    def kept_comments(self, span: Span, indentation: str) -> str:
        """The comments of a deleted piece of text, each on a line of its own."""
        kept = [found["comment"] for found in comments(self.text(span))]
        return "".join(f"{indentation}{comment}{self.newline}" for comment in kept)

    def whole_lines(self, first: int, last: int) -> Span:
        return Span(Position(first, 0), Position(last + 1, 0))


@dataclass(frozen=True)
class Replace(NodeEdit):
    """Other text in place of a node."""

    node: cst.CSTNode
    content: str

    def edits(self, layout: Layout) -> Iterator[Edit]:
        if any(True for _ in comments(layout.text(layout.span(self.node)))):
            raise Unfixable
        yield Edit(layout.span(self.node), self.content)


@dataclass(frozen=True)
class Append(NodeEdit):
    """A suffix, such as `.detach()`, after an expression; in brackets if it needs them."""

    node: cst.BaseExpression
    suffix: str

    def edits(self, layout: Layout) -> Iterator[Edit]:
        span = layout.span(self.node)
        if self.node.lpar:
            end = layout.source.offset(span.end)
            rest = layout.source.text[end:]
            if not rest.lstrip(" \t").startswith(")"):
                raise Unfixable
            after = layout.source.position(end + rest.index(")") + 1)
            yield Edit(Span(after, after), self.suffix)
        elif isinstance(self.node, _ATOMS):
            yield Edit(Span(span.end, span.end), self.suffix)
        else:
            yield Edit(Span(span.start, span.start), "(")
            yield Edit(Span(span.end, span.end), ")" + self.suffix)


@dataclass(frozen=True)
class Prepend(NodeEdit):
    """Text right before an expression."""

    node: cst.BaseExpression
    prefix: str

    def edits(self, layout: Layout) -> Iterator[Edit]:
        if self.node.lpar:
            raise Unfixable
        start = layout.start(self.node)
        yield Edit(Span(start, start), self.prefix)


@dataclass(frozen=True)
class InsertBefore(NodeEdit):
    """A statement before a node's own statement, and before the comment that belongs to that."""

    node: cst.CSTNode
    statement: str

    def edits(self, layout: Layout) -> Iterator[Edit]:
        statement = self.node
        if not isinstance(statement, (cst.SimpleStatementLine, cst.BaseCompoundStatement)):
            statement, holder = layout.small_statement(statement)
            if isinstance(holder, cst.SimpleStatementSuite) or children(holder)[0] is not statement:
                start = layout.start(statement)
                yield Edit(Span(start, start), f"{self.statement}; ")
                return
        first = layout.start(statement).line
        indentation = layout.indentation(first)
        while _is_comment(layout.line(first - 1), indentation) and layout.same_cell(first, first - 1):
            first -= 1
        start = Position(first, 0)
        yield Edit(Span(start, start), f"{indentation}{self.statement}{layout.newline}")


def _is_comment(line: str, indentation: str) -> bool:
    return line.startswith(f"{indentation}#")


@dataclass(frozen=True)
class InsertAfter(NodeEdit):
    """A statement after the simple one around a node."""

    node: cst.CSTNode
    statement: str

    def edits(self, layout: Layout) -> Iterator[Edit]:
        small, holder = layout.small_statement(self.node)
        end = layout.end(small)
        if isinstance(holder, cst.SimpleStatementSuite) or len(children(holder)) > 1:
            yield Edit(Span(end, end), f"; {self.statement}")
            return
        after = Position(end.line, len(layout.line(end.line)))
        indentation = layout.indentation(layout.start(small).line)
        yield Edit(Span(after, after), f"{layout.newline}{indentation}{self.statement}")


@dataclass(frozen=True)
class Delete(NodeEdit):
    """Deletes an argument, an item of a `with`, a decorator, or (for any other node) the statement around it."""

    node: cst.CSTNode

    def edits(self, layout: Layout) -> Iterator[Edit]:
        if isinstance(self.node, (cst.Arg, cst.WithItem)):
            yield self._from_list(layout)
        elif isinstance(self.node, cst.Decorator):
            yield self._lines(layout, self.node)
        else:
            yield self._statement(layout)

    def _from_list(self, layout: Layout) -> Edit:
        parent = layout.tree.parent(self.node)
        siblings = [item for item in children(parent) if isinstance(item, type(self.node))] if parent else []
        index = siblings.index(self.node)
        start, end = layout.start(self.node), layout.end(self.node)
        if len(siblings) == 1:
            if not isinstance(parent, cst.Call):
                raise Unfixable
            span = _between_brackets(layout, parent)
        elif index:
            span = Span(layout.end(siblings[index - 1]), end)
        else:
            span = Span(start, layout.start(siblings[1]))
        if any(True for _ in comments(layout.text(span))):
            raise Unfixable
        return Edit(span, "")

    def _lines(self, layout: Layout, statement: cst.CSTNode) -> Edit:
        first, last = layout.start(statement).line, layout.end(statement).line
        span = layout.whole_lines(first, last)
        return Edit(span, layout.kept_comments(span, layout.indentation(first)))

    def _statement(self, layout: Layout) -> Edit:
        small, holder = layout.small_statement(self.node)
        others = children(holder)
        index = others.index(small)
        if len(others) > 1:
            if index:
                return Edit(Span(layout.end(others[index - 1]), layout.end(small)), "")
            return Edit(Span(layout.start(small), layout.start(others[1])), "")
        block = layout.tree.parent(holder)
        if isinstance(holder, cst.SimpleStatementSuite):
            return Edit(layout.span(small), "pass")
        if isinstance(block, cst.IndentedBlock) and len(block.body) == 1:
            owner = layout.tree.parent(block)
            if owner is not None and _does_nothing_else(layout.tree, owner):
                return self._lines(layout, owner)
            if any(True for _ in comments(layout.text(layout.span(small)))):
                raise Unfixable
            return Edit(layout.span(small), "pass")
        return self._lines(layout, holder)


def _between_brackets(layout: Layout, call: cst.Call) -> Span:
    """All between the brackets of a call with one argument."""
    start, end = layout.end(call.func), layout.end(call)
    text = layout.text(Span(start, end))
    first = layout.source.offset(start) + text.index("(") + 1
    return Span(layout.source.position(first), Position(end.line, end.column - 1))


def _does_nothing_else(tree: Tree, owner: cst.CSTNode) -> bool:
    """Whether a statement is an `if` with one branch, not alone in its block, whose test has no effect."""
    if not isinstance(owner, cst.If) or owner.orelse is not None or isinstance(tree.parent(owner), cst.If):
        return False
    block = tree.parent(owner)
    if isinstance(block, cst.IndentedBlock) and len(block.body) == 1:
        return False
    calls = [item for item in walk(owner.test) if isinstance(item, cst.Call)]
    return all(not call.args and isinstance(call.func, cst.Attribute) and _asks(call.func) for call in calls)


def _asks(method: cst.Attribute) -> bool:
    return method.attr.value.startswith(("is_", "has_"))


@dataclass(frozen=True)
class Enclose(NodeEdit):
    """Consecutive simple statements, or a compound one, indented under `with torch.no_grad():`."""

    node: cst.CSTNode
    last: cst.CSTNode
    header: str

    @property
    def around(self) -> Sequence[cst.CSTNode]:
        return (self.node, self.last)

    def edits(self, layout: Layout) -> Iterator[Edit]:
        statements = list(self._statements(layout))
        first = layout.start(statements[0]).line
        start = Position(first, 0)
        unit = layout.tree.module.default_indent
        indentation = layout.indentation(first)
        yield Edit(Span(start, start), f"{indentation}{self.header}{layout.newline}{unit}")
        strings = {line for statement in statements for line in layout.inside_strings(statement)}
        for number in range(first + 1, layout.end(statements[-1]).line + 1):
            if layout.line(number).strip() and number not in strings:
                start = Position(number, 0)
                yield Edit(Span(start, start), unit)

    def _statements(self, layout: Layout) -> Iterator[cst.CSTNode]:
        if self.node is self.last and isinstance(self.node, cst.BaseCompoundStatement):
            yield self.node
            return
        first, last = layout.tree.statement(self.node), layout.tree.statement(self.last)
        block = layout.tree.parent(first)
        if not isinstance(first, cst.SimpleStatementLine) or block is None or layout.tree.parent(last) is not block:
            raise Unfixable
        inside = children(block)
        for statement in inside[inside.index(first) : inside.index(last) + 1]:
            if not isinstance(statement, cst.SimpleStatementLine):
                raise Unfixable
            yield statement


@dataclass(frozen=True)
class Unwrap(NodeEdit):
    """The body of a `with` in place of the whole."""

    node: cst.With

    def edits(self, layout: Layout) -> Iterator[Edit]:
        header, body = layout.start(self.node), layout.start(children(self.node.body)[0])
        if isinstance(self.node.body, cst.SimpleStatementSuite):
            yield Edit(Span(header, body), "")
            return
        indentation = layout.indentation(header.line)
        span = layout.whole_lines(header.line, self._last_line_of_header(layout))
        yield Edit(span, layout.kept_comments(span, indentation))
        strings = layout.inside_strings(self.node)
        for number in range(span.end.line, self._last_line(layout) + 1):
            if number not in strings:
                yield from self._dedented(layout, number, len(indentation), body.column)

    def _last_line_of_header(self, layout: Layout) -> int:
        return max(layout.end(item).line for item in self.node.items)

    def _last_line(self, layout: Layout) -> int:
        """The last line of the body, with comments below its last statement."""
        last = layout.end(self.node).line
        outer = layout.indentation(layout.start(self.node).line)
        line = last + 1
        while (text := layout.line(line)).strip().startswith("#") and len(layout.indentation(line)) > len(outer):
            assert text
            last, line = line, line + 1
        return last

    def _dedented(self, layout: Layout, number: int, outer: int, inner: int) -> Iterator[Edit]:
        have = len(layout.indentation(number))
        if layout.line(number).strip() and have > outer:
            yield Edit(Span(Position(number, outer), Position(number, min(have, inner))), "")
