"""What Python's own parser makes of a text, as LibCST's nodes without layout: made in a fifth of LibCST's time.

The model asks for nothing of white space, comments and brackets. So it reads a draft first, and only a file in which
something is found there is parsed as it is written. A draft has the semantic nodes of LibCST's tree, but that a string
is one however many literals it is made of. Layout is missing: reading it raises `AttributeError`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

import libcst as cst

from torchlint.python import UNREADABLE, python_tree

Node = Any
"""A node of LibCST's: which one, and what its fields hold, is a matter of its kind."""


class NoDraft(Exception):
    """The text is no Python to the Python that runs, or has something of which no draft is made."""


def draft(text: str) -> cst.Module:
    """The module that a text is, without layout. Raises `NoDraft`."""
    try:
        module: cst.Module = _Writer(text).node(python_tree(text))
    except (*UNREADABLE, LookupError) as error:
        raise NoDraft from error
    return module


def _made(kind: type[Node], /, **fields: object) -> Node:
    """A node with some of its fields: its constructor would fill all others with layout."""
    node = _new(kind)
    for name, value in fields.items():
        _set(node, name, value)
    return node


_new = object.__new__
_set = object.__setattr__


class _Writer:
    """Writes nodes of Python's parser as LibCST's."""

    def __init__(self, text: str) -> None:
        self.lines = text.encode().splitlines()

    def node(self, node: ast.AST | None) -> Node:
        """A node that is written by itself, whatever stands around it."""
        if node is None:
            return None
        kind = type(node)
        write = _WRITERS.get(kind)
        if write is not None:
            return write(self, node)
        made, parts = _FORMS[kind]
        new = _new(made)
        for field, how, attribute in parts:
            _set(new, field, how(self, getattr(node, attribute)))
        return new

    def each(self, nodes: Sequence[ast.AST]) -> list[Node]:
        return [self.node(item) for item in nodes]

    def _start(self, node: ast.expr | ast.stmt) -> bytes:
        """The rest of the line on which a node starts."""
        return self.lines[node.lineno - 1][node.col_offset :]

    # -- statements -------------------------------------------------------------------------------------

    def statements(self, nodes: Sequence[ast.stmt]) -> list[Node]:
        """Compound statements, and lines of small ones."""
        found: list[Node] = []
        line: int | None = 0
        for node in nodes:
            if type(node) in _COMPOUND:
                found.append(self.node(node))
            elif node.lineno == line:
                found[-1].body.append(self.node(node))
            else:
                found.append(_made(cst.SimpleStatementLine, body=[self.node(node)]))
            line = node.end_lineno
        return found

    def suite(self, nodes: Sequence[ast.stmt]) -> Node:
        first = nodes[0]
        if self.lines[first.lineno - 1][: first.col_offset].isspace():
            return _made(cst.IndentedBlock, body=self.statements(nodes))
        return _made(cst.SimpleStatementSuite, body=self.each(nodes))

    def orelse(self, nodes: Sequence[ast.stmt]) -> Node:
        if not nodes:
            return None
        only = nodes[0]
        if isinstance(only, ast.If) and self._start(only).startswith(b"elif"):
            return self.node(only)
        return _made(cst.Else, body=self.suite(nodes))

    def finalbody(self, nodes: Sequence[ast.stmt]) -> Node:
        return _made(cst.Finally, body=self.suite(nodes)) if nodes else None

    def decorators(self, nodes: Sequence[ast.expr]) -> list[Node]:
        return [_made(cst.Decorator, decorator=self.node(item)) for item in nodes]

    def asname(self, target: ast.expr | str | None) -> Node:
        if target is None:
            return None
        return _made(cst.AsName, name=_name(target) if isinstance(target, str) else self.node(target))

    def source(self, node: ast.expr | None) -> Node:
        """What follows `from`."""
        return None if node is None else _made(cst.From, item=self.node(node))

    def assigned(self, nodes: Sequence[ast.expr]) -> list[Node]:
        return [_made(cst.AssignTarget, target=self.node(item)) for item in nodes]

    def deleted(self, nodes: Sequence[ast.expr]) -> Node:
        return self.node(nodes[0]) if len(nodes) == 1 else _made(cst.Tuple, elements=self.elements(nodes))

    def outer(self, names: Sequence[str]) -> list[Node]:
        return [_made(cst.NameItem, name=_name(item)) for item in names]

    def imported(self, names: Sequence[ast.alias]) -> Node:
        return _made(cst.ImportStar) if names[0].name == "*" else self.each(names)

    def name(self, text: str) -> Node:
        return _name(text)

    def dotted(self, text: str | None) -> Node:
        return _dotted(text) if text else None

    def dots(self, level: int) -> list[Node]:
        return [_made(cst.Dot) for _ in range(level)]

    # -- parameters and arguments -----------------------------------------------------------------------

    def parameters(self, node: ast.arguments) -> Node:
        positional = [*node.posonlyargs, *node.args]
        defaults = [*[None] * (len(positional) - len(node.defaults)), *node.defaults]
        params = [self._parameter(*pair) for pair in zip(positional, defaults, strict=True)]
        keywords = [self._parameter(*pair) for pair in zip(node.kwonlyargs, node.kw_defaults, strict=True)]
        only = len(node.posonlyargs)
        bare = _made(cst.ParamStar) if keywords else cst.MaybeSentinel.DEFAULT
        return _made(
            cst.Parameters,
            posonly_params=params[:only],
            params=params[only:],
            star_arg=self._parameter(node.vararg) if node.vararg else bare,
            kwonly_params=keywords,
            star_kwarg=self._parameter(node.kwarg) if node.kwarg else None,
        )

    def _parameter(self, node: ast.arg, default: ast.expr | None = None) -> Node:
        annotation = self.annotation(node.annotation)
        return _made(cst.Param, name=_name(node.arg), annotation=annotation, default=self.node(default))

    def annotation(self, node: ast.expr | None) -> Node:
        return None if node is None else _made(cst.Annotation, annotation=self.node(node))

    def arguments(self, nodes: Sequence[ast.expr | ast.keyword]) -> list[Node]:
        return [self._argument(item) for item in nodes]

    def _argument(self, node: ast.expr | ast.keyword) -> Node:
        if isinstance(node, ast.Starred):
            return _made(cst.Arg, value=self.node(node.value), keyword=None, star="*")
        if not isinstance(node, ast.keyword):
            return _made(cst.Arg, value=self.node(node), keyword=None, star="")
        if node.arg is None:
            return _made(cst.Arg, value=self.node(node.value), keyword=None, star="**")
        return _made(cst.Arg, value=self.node(node.value), keyword=_name(node.arg), star="")

    # -- expressions ------------------------------------------------------------------------------------

    def call(self, node: ast.Call) -> Node:
        arguments: list[ast.expr | ast.keyword] = [*node.args, *node.keywords]
        if node.keywords and any(isinstance(item, ast.Starred) for item in node.args):
            arguments.sort(key=lambda item: (item.lineno, item.col_offset))
        return _made(cst.Call, func=self.node(node.func), args=self.arguments(arguments))

    def constant(self, node: ast.Constant) -> Node:
        value = node.value
        return _made(cst.Ellipsis) if value is ... else _made(_LITERALS[type(value)], value=repr(value))

    def subscript(self, node: ast.Subscript) -> Node:
        index = node.slice
        parts = index.elts if isinstance(index, ast.Tuple) and self._is_bare(index) else [index]
        elements = [_made(cst.SubscriptElement, slice=self._index(item)) for item in parts]
        return _made(cst.Subscript, value=self.node(node.value), slice=elements)

    def _is_bare(self, node: ast.Tuple) -> bool:
        """Whether a tuple has no brackets of its own: as many are closed behind its first element as opened before."""
        if not node.elts:
            return False
        first = node.elts[0]
        inside = first.col_offset if first.lineno == node.lineno else None
        opened = self.lines[node.lineno - 1][node.col_offset : inside].count(b"(")
        behind = self.lines[(first.end_lineno or 0) - 1][first.end_col_offset :].partition(b",")[0]
        return behind.count(b")") == opened

    def _index(self, node: ast.expr) -> Node:
        if isinstance(node, ast.Slice):
            return self.node(node)
        return _made(cst.Index, value=self.node(node.value if isinstance(node, ast.Starred) else node))

    def boolean(self, node: ast.BoolOp) -> Node:
        operator = self.operator(node.op)
        first, *others = map(self.node, node.values)
        for item in others:
            first = _made(cst.BooleanOperation, left=first, operator=operator, right=item)
        return first

    def operator(self, node: ast.operator | ast.unaryop | ast.boolop | ast.cmpop) -> Node:
        return _OPERATORS[type(node)]

    def augmenting(self, node: ast.operator) -> Node:
        return _AUGMENTING[type(node)]

    def comparison(self, node: ast.Compare) -> Node:
        targets = [
            _made(cst.ComparisonTarget, operator=self.operator(operator), comparator=self.node(item))
            for operator, item in zip(node.ops, node.comparators, strict=True)
        ]
        return _made(cst.Comparison, left=self.node(node.left), comparisons=targets)

    def elements(self, nodes: Sequence[ast.expr]) -> list[Node]:
        return [
            self.node(item) if isinstance(item, ast.Starred) else _made(cst.Element, value=self.node(item))
            for item in nodes
        ]

    def dictionary(self, node: ast.Dict) -> Node:
        elements = [
            _made(cst.StarredDictElement, value=self.node(value))
            if key is None
            else _made(cst.DictElement, key=self.node(key), value=self.node(value))
            for key, value in zip(node.keys, node.values, strict=True)
        ]
        return _made(cst.Dict, elements=elements)

    def generators(self, nodes: Sequence[ast.comprehension]) -> Node:
        inner = None
        for node in reversed(nodes):
            ifs = [_made(cst.CompIf, test=self.node(item)) for item in node.ifs]
            target, iterable = self.node(node.target), self.node(node.iter)
            inner = _made(cst.CompFor, target=target, iter=iterable, ifs=ifs, inner_for_in=inner)
        return inner

    def formatted(self, nodes: Sequence[ast.expr]) -> list[Node]:
        return [
            self.node(item) if isinstance(item, ast.FormattedValue) else _made(cst.FormattedStringText, value="")
            for item in nodes
        ]

    def specification(self, node: ast.expr | None) -> list[Node] | None:
        return self.formatted(node.values) if isinstance(node, ast.JoinedStr) else None


def _name(text: str) -> Node:
    node = _new(cst.Name)
    _set(node, "value", text)
    return node


def _dotted(text: str) -> Node:
    first, *others = text.split(".")
    whole = _name(first)
    for part in others:
        whole = _made(cst.Attribute, value=whole, attr=_name(part))
    return whole


How = Callable[[_Writer, Any], object]
"""How an attribute of a node of Python's parser is written."""
_W = _Writer

_WRITERS: dict[type[ast.AST], How] = {
    ast.Name: lambda _, node: _name(node.id), ast.Call: _W.call, ast.Constant: _W.constant,
    ast.Subscript: _W.subscript, ast.BoolOp: _W.boolean, ast.Compare: _W.comparison,
    ast.Dict: _W.dictionary,
}  # fmt: skip
"""How nodes are written of which a node of the other kind differs by more than the names of its fields."""


def _form(kind: type[Node], /, **parts: tuple[How, str]) -> tuple[type[Node], list[tuple[str, How, str]]]:
    """A node of LibCST's: of each field how it is written, and the attribute that it comes from."""
    return kind, [(field, *part) for field, part in parts.items()]


_FUNCTION = _form(
    cst.FunctionDef, name=(_W.name, "name"), params=(_W.parameters, "args"), body=(_W.suite, "body"),
    decorators=(_W.decorators, "decorator_list"), returns=(_W.annotation, "returns"),
)  # fmt: skip
_FOR = _form(
    cst.For, target=(_W.node, "target"), iter=(_W.node, "iter"), body=(_W.suite, "body"), orelse=(_W.orelse, "orelse")
)
_WITH = _form(cst.With, items=(_W.each, "items"), body=(_W.suite, "body"))
_COMPOUND = {
    ast.FunctionDef: _FUNCTION,
    ast.AsyncFunctionDef: _FUNCTION,
    ast.ClassDef: _form(
        cst.ClassDef, name=(_W.name, "name"), body=(_W.suite, "body"), bases=(_W.arguments, "bases"),
        keywords=(_W.arguments, "keywords"), decorators=(_W.decorators, "decorator_list"),
    ),
    ast.If: _form(cst.If, test=(_W.node, "test"), body=(_W.suite, "body"), orelse=(_W.orelse, "orelse")),
    ast.For: _FOR,
    ast.AsyncFor: _FOR,
    ast.While: _form(cst.While, test=(_W.node, "test"), body=(_W.suite, "body"), orelse=(_W.orelse, "orelse")),
    ast.With: _WITH,
    ast.AsyncWith: _WITH,
    ast.Try: _form(
        cst.Try, body=(_W.suite, "body"), handlers=(_W.each, "handlers"), orelse=(_W.orelse, "orelse"),
        finalbody=(_W.finalbody, "finalbody"),
    ),
}  # fmt: skip
_FORMS: dict[type[ast.AST], tuple[type[Node], list[tuple[str, How, str]]]] = {
    **_COMPOUND,
    ast.Module: _form(cst.Module, body=(_W.statements, "body")),
    ast.withitem: _form(cst.WithItem, item=(_W.node, "context_expr"), asname=(_W.asname, "optional_vars")),
    ast.ExceptHandler: _form(
        cst.ExceptHandler, body=(_W.suite, "body"), type=(_W.node, "type"), name=(_W.asname, "name")
    ),
    ast.Expr: _form(cst.Expr, value=(_W.node, "value")),
    ast.Assign: _form(cst.Assign, targets=(_W.assigned, "targets"), value=(_W.node, "value")),
    ast.AnnAssign: _form(
        cst.AnnAssign, target=(_W.node, "target"), annotation=(_W.annotation, "annotation"), value=(_W.node, "value")
    ),
    ast.AugAssign: _form(
        cst.AugAssign, target=(_W.node, "target"), operator=(_W.augmenting, "op"), value=(_W.node, "value")
    ),
    ast.Return: _form(cst.Return, value=(_W.node, "value")),
    ast.Raise: _form(cst.Raise, exc=(_W.node, "exc"), cause=(_W.source, "cause")),
    ast.Assert: _form(cst.Assert, test=(_W.node, "test"), msg=(_W.node, "msg")),
    ast.Delete: _form(cst.Del, target=(_W.deleted, "targets")),
    ast.Global: _form(cst.Global, names=(_W.outer, "names")),
    ast.Nonlocal: _form(cst.Nonlocal, names=(_W.outer, "names")),
    ast.Import: _form(cst.Import, names=(_W.each, "names")),
    ast.ImportFrom: _form(
        cst.ImportFrom, module=(_W.dotted, "module"), names=(_W.imported, "names"), relative=(_W.dots, "level")
    ),
    ast.alias: _form(cst.ImportAlias, name=(_W.dotted, "name"), asname=(_W.asname, "asname")),
    ast.Pass: _form(cst.Pass),
    ast.Break: _form(cst.Break),
    ast.Continue: _form(cst.Continue),
    ast.Attribute: _form(cst.Attribute, value=(_W.node, "value"), attr=(_W.name, "attr")),
    ast.Slice: _form(cst.Slice, lower=(_W.node, "lower"), upper=(_W.node, "upper"), step=(_W.node, "step")),
    ast.BinOp: _form(
        cst.BinaryOperation, left=(_W.node, "left"), operator=(_W.operator, "op"), right=(_W.node, "right")
    ),
    ast.UnaryOp: _form(cst.UnaryOperation, operator=(_W.operator, "op"), expression=(_W.node, "operand")),
    ast.IfExp: _form(cst.IfExp, test=(_W.node, "test"), body=(_W.node, "body"), orelse=(_W.node, "orelse")),
    ast.Lambda: _form(cst.Lambda, params=(_W.parameters, "args"), body=(_W.node, "body")),
    ast.NamedExpr: _form(cst.NamedExpr, target=(_W.node, "target"), value=(_W.node, "value")),
    ast.Await: _form(cst.Await, expression=(_W.node, "value")),
    ast.Yield: _form(cst.Yield, value=(_W.node, "value")),
    ast.YieldFrom: _form(cst.Yield, value=(_W.source, "value")),
    ast.Starred: _form(cst.StarredElement, value=(_W.node, "value")),
    ast.Tuple: _form(cst.Tuple, elements=(_W.elements, "elts")),
    ast.List: _form(cst.List, elements=(_W.elements, "elts")),
    ast.Set: _form(cst.Set, elements=(_W.elements, "elts")),
    ast.ListComp: _form(cst.ListComp, elt=(_W.node, "elt"), for_in=(_W.generators, "generators")),
    ast.SetComp: _form(cst.SetComp, elt=(_W.node, "elt"), for_in=(_W.generators, "generators")),
    ast.GeneratorExp: _form(cst.GeneratorExp, elt=(_W.node, "elt"), for_in=(_W.generators, "generators")),
    ast.DictComp: _form(
        cst.DictComp, key=(_W.node, "key"), value=(_W.node, "value"), for_in=(_W.generators, "generators")
    ),
    ast.JoinedStr: _form(cst.FormattedString, parts=(_W.formatted, "values")),
    ast.FormattedValue: _form(
        cst.FormattedStringExpression, expression=(_W.node, "value"), format_spec=(_W.specification, "format_spec")
    ),
}

_LITERALS: dict[type, type[Node]] = {
    str: cst.SimpleString, bytes: cst.SimpleString, int: cst.Integer, float: cst.Float, complex: cst.Imaginary,
    bool: cst.Name, type(None): cst.Name,
}  # fmt: skip
_OPERATORS: dict[type[ast.AST], Node] = {
    kind: _made(made)
    for kind, made in {
        ast.Add: cst.Add, ast.Sub: cst.Subtract, ast.Mult: cst.Multiply, ast.Div: cst.Divide,
        ast.MatMult: cst.MatrixMultiply, ast.Pow: cst.Power, ast.Mod: cst.Modulo, ast.FloorDiv: cst.FloorDivide,
        ast.LShift: cst.LeftShift, ast.RShift: cst.RightShift, ast.BitOr: cst.BitOr, ast.BitXor: cst.BitXor,
        ast.BitAnd: cst.BitAnd, ast.And: cst.And, ast.Or: cst.Or, ast.Not: cst.Not, ast.USub: cst.Minus,
        ast.UAdd: cst.Plus, ast.Invert: cst.BitInvert, ast.Eq: cst.Equal, ast.NotEq: cst.NotEqual,
        ast.Lt: cst.LessThan, ast.LtE: cst.LessThanEqual, ast.Gt: cst.GreaterThan, ast.GtE: cst.GreaterThanEqual,
        ast.Is: cst.Is, ast.IsNot: cst.IsNot, ast.In: cst.In, ast.NotIn: cst.NotIn,
    }.items()
}  # fmt: skip
_AUGMENTING: dict[type[ast.AST], Node] = {
    kind: _made(made)
    for kind, made in {
        ast.Add: cst.AddAssign, ast.Sub: cst.SubtractAssign, ast.Mult: cst.MultiplyAssign, ast.Div: cst.DivideAssign,
        ast.MatMult: cst.MatrixMultiplyAssign, ast.Pow: cst.PowerAssign, ast.Mod: cst.ModuloAssign,
        ast.FloorDiv: cst.FloorDivideAssign, ast.LShift: cst.LeftShiftAssign, ast.RShift: cst.RightShiftAssign,
        ast.BitOr: cst.BitOrAssign, ast.BitXor: cst.BitXorAssign, ast.BitAnd: cst.BitAndAssign,
    }.items()
}  # fmt: skip
