"""The syntax tree: parse, children, order, spans on demand. The only file that depends on LibCST's internals."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import fields
from functools import cached_property
from itertools import accumulate
from typing import Any

import libcst as cst
from libcst._nodes.internal import CodegenState

from torchlint.files.lines import Text
from torchlint.files.python import python_tree
from torchlint.files.source import SourceError, SourceFile, SyntaxProblem
from torchlint.finding import Position, Span
from torchlint.syntax.incremental import Pieces, code_of_statements
from torchlint.syntax.reading import python_problem, refuse_depth

# Fields that carry layout and no meaning; all others lead to semantic children.
_LAYOUT = frozenset(
    "lpar rpar lbracket rbracket lbrace rbrace header footer leading_lines lines_after_decorators comma "
    "semicolon equal star dot colon newline leading_whitespace trailing_whitespace indent ellipsis lines_after_module "
    "async_ asynchronous first_line encoding default_indent default_newline has_trailing_newline "
    "whitespace_before_args type_parameters first_colon second_colon posonly_ind conversion start end".split()
)

_CHECK = cst.CSTNode.__post_init__


def parse(source: SourceFile, pieces: Pieces | None = None) -> Tree:
    """Parse a file; raises `SyntaxProblem`, or `SourceError` if it is no text or too deep to be parsed.

    With `pieces` of an earlier form of the file, unchanged nodes are reused.
    """
    text = source.text
    refuse_depth(source)
    try:
        with _unchecked():
            module = cst.parse_module(text) if pieces is None else pieces.module(text)
    except cst.ParserSyntaxError as error:
        raise _problem(error, source) from None
    return Tree(module, source) if pieces is None else Tree(module, source, pieces.printed)


@contextmanager
def _unchecked() -> Iterator[None]:
    """Skip LibCST's validation of every node, a sixth of the parse time: the parser creates no invalid nodes."""
    cst.CSTNode.__post_init__ = _nothing  # type: ignore[assignment,method-assign]
    try:
        yield
    finally:
        cst.CSTNode.__post_init__ = _CHECK  # type: ignore[method-assign]


def _nothing(node: cst.CSTNode) -> None:
    pass


def _problem(error: cst.ParserSyntaxError, source: SourceFile) -> SyntaxProblem | SourceError:
    """The error of Python itself for the text: LibCST lists expected tokens, and may be wrong."""
    try:
        python_tree(source.text)
    except SyntaxError as own:
        return python_problem(own, source)
    except (ValueError, RecursionError, MemoryError):
        pass
    message = error.message.split("\n", 1)[0]
    place = re.search(r"\d+", message)
    return SourceError(f"LibCST cannot parse it ({message})", int(place[0]) if place else 1)


_child_fields: dict[type, tuple[str, ...]] = {}


def _fields_of(kind: type) -> tuple[str, ...]:
    names = tuple(
        item.name
        for item in fields(kind)
        if item.name not in _LAYOUT and not item.name.startswith("whitespace") and item.type not in (str, "str")
    )
    _child_fields[kind] = names
    return names


def children(node: cst.CSTNode) -> list[cst.CSTNode]:
    """The semantic children of a node in source order: no white space, commas or brackets."""
    found: list[cst.CSTNode] = []
    kind = type(node)
    names = _child_fields.get(kind)
    for name in _fields_of(kind) if names is None else names:
        value = getattr(node, name)
        if value.__class__ in _SEQUENCES:
            found.extend(value)
        elif _is_node(value):
            found.append(value)
    return found


_SEQUENCES = (tuple, list)
_node_kinds: dict[type, bool] = {str: False, type(None): False}


def _is_node(value: object) -> bool:
    """Like `isinstance(value, CSTNode)`, but fast: that is an abstract class, so the result is cached per class."""
    kind = value.__class__
    known = _node_kinds.get(kind)
    if known is None:
        known = _node_kinds[kind] = issubclass(kind, cst.CSTNode)
    return known


def walk(root: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """A node and all its semantic descendants, in source order."""
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(children(node)))


def dotted(node: cst.CSTNode | None) -> str:
    """`a.b.c` for a chain of names, `a` for `a[0]`, or an empty string."""
    parts: list[str] = []
    while isinstance(node, cst.Attribute):
        parts.append(node.attr.value)
        node = node.value
    if isinstance(node, cst.Subscript):
        return dotted(node.value) if not parts else ""
    if not isinstance(node, cst.Name):
        return ""
    parts.append(node.value)
    return ".".join(reversed(parts))


class Tree:
    """A parsed module: its nodes in source order, the parent of each, and spans on demand."""

    def __init__(self, module: cst.Module, source: SourceFile, printed: Mapping[int, str] | None = None) -> None:
        """`printed` is the known code of top-level statements, by the identity of their nodes."""
        self.module = module
        self.source = source
        self._printed = printed
        self._parents: dict[int, cst.CSTNode] = {}
        self._entered: set[int] = set()
        """Top-level statements whose nodes have parents."""
        for statement in module.body:
            self._parents[id(statement)] = module
            if isinstance(statement, cst.SimpleStatementLine):
                self._parents.update((id(small), statement) for small in statement.body)

    @cached_property
    def nodes(self) -> list[cst.CSTNode]:
        """Every semantic node in source order, the module first."""
        return self._descend(self.module)

    @cached_property
    def by_type(self) -> dict[type[cst.CSTNode], list[cst.CSTNode]]:
        """The nodes of each type, in source order."""
        found: dict[type[cst.CSTNode], list[cst.CSTNode]] = {}
        for node in self.nodes:
            found.setdefault(type(node), []).append(node)
        return found

    def enter(self, statement: cst.CSTNode) -> None:
        """Find the parents of all nodes in a top-level statement, which is faster than for the whole module."""
        parent = self._parents[id(statement)]
        top = statement if parent is self.module else parent
        if id(top) not in self._entered:
            self._entered.add(id(top))
            self._descend(top)

    def _descend(self, root: cst.CSTNode) -> list[cst.CSTNode]:
        """All semantic nodes from `root` down, in source order; remembers each parent except the first node's."""
        nodes: list[cst.CSTNode] = []
        parents, known, kinds = self._parents, _child_fields, _node_kinds
        stack: list[cst.CSTNode] = [root]
        while stack:
            node = stack.pop()
            nodes.append(node)
            kind = type(node)
            names = known.get(kind)
            if names is None:
                names = _fields_of(kind)
            top = len(stack)
            for name in names:
                value = getattr(node, name)
                if value.__class__ in _SEQUENCES:
                    for item in value:
                        parents[id(item)] = node
                    stack.extend(value)
                elif kinds.get(value.__class__) or (value.__class__ not in kinds and _is_node(value)):
                    stack.append(value)
                    parents[id(value)] = node
            if len(stack) - top > 1:
                stack[top:] = stack[top:][::-1]
        return nodes

    @cached_property
    def names(self) -> dict[str, list[cst.Name]]:
        """The nodes of each name, in source order."""
        found: dict[str, list[cst.Name]] = {}
        for node in self.of_type(cst.Name):
            found.setdefault(node.value, []).append(node)
        return found

    def of_type(self, *kinds: type[cst.CSTNode]) -> Iterator[Any]:
        """The nodes of exactly these types, type by type, each in source order."""
        for kind in kinds:
            yield from self.by_type.get(kind, ())

    def holds(self, node: object) -> bool:
        """Whether something is a node of this tree."""
        return node is self.module or id(node) in self._parents

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """The semantic parent of a node; None for the module."""
        found = self._parents.get(id(node))
        if found is None and node is not self.module:
            self.nodes  # noqa: B018 - finds the parents of all
            found = self._parents.get(id(node))
        return found

    def ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """The parents of a node, innermost first."""
        parent = self.parent(node)
        while parent is not None:
            yield parent
            parent = self.parent(parent)

    def statement(self, node: cst.CSTNode) -> cst.CSTNode:
        """The innermost whole statement around a node (the node itself if it is one)."""
        while not isinstance(node, (cst.SimpleStatementLine, cst.BaseCompoundStatement)):
            parent = self.parent(node)
            if parent is None:
                break
            node = parent
        return node

    def block(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """The suite or module that contains the innermost whole statement of a node."""
        return self.parent(self.statement(node))

    def stands_alone(self, node: cst.CSTNode) -> bool:
        """Whether an expression is a statement of its own, so that its value is unused."""
        return isinstance(self.parent(node), cst.Expr)

    def code(self, node: cst.CSTNode) -> str:
        """The source of a node, with its comments and line breaks."""
        return self.module.code_for_node(node)

    def spans(self, wanted: Iterable[cst.CSTNode]) -> Mapping[cst.CSTNode, Span]:
        """The text ranges of nodes, without surrounding white space. One pass for all of them."""
        nodes = {id(node): node for node in wanted}
        recorder = _SpanRecorder(self.module, nodes, self._printed_without(nodes.values()))
        position: Callable[[int], Position] = self.source.position
        if "\f" in self.source.text:
            position = self._position_despite_form_feeds("".join(recorder.tokens))
        return {node: Span(position(start), position(end)) for node, (start, end) in recorder.offsets().items()}

    def _printed_without(self, wanted: Iterable[cst.CSTNode]) -> Mapping[int, str]:
        """The known code of top-level statements that contain no requested node."""
        if self._printed is None:
            self._printed = code_of_statements(self.module, self.source.text)
        inside = {id(around) for node in wanted for around in (node, *self.ancestors(node))}
        return {key: code for key, code in self._printed.items() if key not in inside}

    def _position_despite_form_feeds(self, printed: str) -> Callable[[int], Position]:
        """Positions of offsets into LibCST's output, which drops form feeds at the start of a line."""
        original, copy = Text(self.source.text), Text(printed)

        def position(offset: int) -> Position:
            place = copy.position(offset)
            dropped = len(original.line(place.line)) - len(copy.line(place.line))
            return Position(place.line, place.column + dropped)

        return position


_NOTHING = nullcontext()


class _SpanRecorder(CodegenState):
    """Prints the module and records the tokens at which requested nodes begin and end."""

    def __init__(self, module: cst.Module, wanted: dict[int, cst.CSTNode], printed: Mapping[int, str]) -> None:
        super().__init__(default_indent=module.default_indent, default_newline=module.default_newline)
        self.wanted = wanted
        self.outer: dict[int, tuple[int, int]] = {}
        self.inner: dict[int, tuple[int, int]] = {}
        self.begun: dict[int, int] = {}
        self.printed = printed
        self._print(module)

    def _print(self, module: cst.Module) -> None:
        """Print the module; a statement with known code in one piece."""
        if not self.printed:
            module._codegen(self)
            return
        self.before_codegen(module)
        for part in (*module.header, *module.body, *module.footer):
            code = self.printed.get(id(part))
            if code is None:
                part._codegen(self)
            else:
                self.add_token(code)
        if not module.has_trailing_newline:
            self.pop_trailing_newline()
        self.after_codegen(module)

    def before_codegen(self, node: cst.CSTNode) -> None:
        if id(node) in self.wanted:
            self.begun[id(node)] = len(self.tokens)

    def after_codegen(self, node: cst.CSTNode) -> None:
        if id(node) in self.wanted:
            self.outer[id(node)] = (self.begun[id(node)], len(self.tokens))

    def record_syntactic_position(  # type: ignore[override]  # no generator has to be made where nothing is done
        self,
        node: cst.CSTNode,
        *,
        start_node: cst.CSTNode | None = None,
        end_node: cst.CSTNode | None = None,
    ) -> AbstractContextManager[None]:
        """Called for every node, few of which are requested."""
        return self._recorded(node, start_node, end_node) if id(node) in self.wanted else _NOTHING

    @contextmanager
    def _recorded(
        self, node: cst.CSTNode, start_node: cst.CSTNode | None, end_node: cst.CSTNode | None
    ) -> Iterator[None]:
        first = len(self.tokens)
        self.wanted.update({id(other): other for other in (start_node, end_node) if other is not None})
        yield
        last = len(self.tokens)
        if start_node is not None:
            first = self._edge(start_node, (first, last))[0]
        if end_node is not None:
            last = self._edge(end_node, (first, last))[1]
        self.inner[id(node)] = (first, last)

    def _edge(self, node: cst.CSTNode, default: tuple[int, int]) -> tuple[int, int]:
        return self.inner.get(id(node)) or self.outer.get(id(node)) or default

    def offsets(self) -> dict[cst.CSTNode, tuple[int, int]]:
        """Offsets into the text for every requested node that was printed."""
        starts = list(accumulate(map(len, self.tokens), initial=0))
        return {
            node: (starts[first], starts[last])
            for key, node in self.wanted.items()
            for first, last in [self._edge(node, (0, 0))]
            if key in self.outer or key in self.inner
        }
