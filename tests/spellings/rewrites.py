"""Rewrites of a program's tree: the same in other statements and expressions, one place at a time."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from itertools import count
from random import Random
from textwrap import dedent
from typing import Any

from tests.spellings.layout import BRACKETS


class Rewriter:
    """Rewrites a tree in place; new names are `v0`, `v1`, ..."""

    def __init__(self, tree: ast.Module, random: Random) -> None:
        self.tree = tree
        self.random = random
        self._numbers = count()

    def name(self) -> str:
        return f"v{next(self._numbers)}"

    def rewrite(self) -> None:
        """Rewrite one place that is drawn at random, or none if nothing is there for the rewrite that is drawn."""
        kind, rewrites = self.random.choice(_REWRITES)
        places = list(self._statements() if issubclass(kind, ast.stmt) else self._expressions())
        places = [place for place in places if isinstance(place.node, kind)]
        if places:
            place = self.random.choice(places)
            new = self.random.choice(rewrites)(self, place.node)
            if new is not None:
                place.put(new)

    def _statements(self) -> Iterator[_Place]:
        for node in ast.walk(self.tree):
            for field in ("body", "orelse", "finalbody"):
                block = getattr(node, field, None)
                if isinstance(block, list):
                    yield from (_Place(block, index) for index in range(len(block)))

    def _expressions(self) -> Iterator[_Place]:
        for node in ast.walk(self.tree):
            for field, value in ast.iter_fields(node):
                if field in ("targets", "target", "optional_vars", "decorator_list", "bases", "pattern"):
                    continue
                if isinstance(value, ast.expr) and isinstance(getattr(value, "ctx", ast.Load()), ast.Load):
                    yield _Place(vars(node), field)
                elif isinstance(value, list) and all(isinstance(item, ast.expr) for item in value):
                    yield from (_Place(value, index) for index in range(len(value)))


class _Place:
    """A node's place in its parent."""

    def __init__(self, holder: Any, key: int | str) -> None:
        self._holder = holder
        self._key = key

    @property
    def node(self) -> ast.AST:
        node: ast.AST = self._holder[self._key]
        return node

    def put(self, new: ast.AST | list[ast.stmt]) -> None:
        if isinstance(new, list):
            assert isinstance(self._key, int)
            self._holder[self._key : self._key + 1] = new
        else:
            self._holder[self._key] = new


def _expression(text: str, **parts: ast.expr | None) -> ast.expr:
    """An expression in which names stand for others."""
    statement = _statements(text, **parts)[0]
    assert isinstance(statement, ast.Expr)
    return statement.value


def _statements(text: str, **parts: ast.expr | None) -> list[ast.stmt]:
    module = ast.parse(dedent(text))

    class Fill(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.AST:
            part = parts.get(node.id)
            if part is None:
                return node
            part = copy.deepcopy(part)
            if hasattr(part, "ctx"):
                part.ctx = node.ctx
            return part

    return Fill().visit(module).body  # type: ignore[no-any-return]


Rewrite = Callable[[Rewriter, "ast.AST"], "ast.AST | list[ast.stmt] | None"]


def _template(text: str) -> Rewrite:
    """An expression `E` as another one; `V` is a new name."""
    return lambda rewriter, node: _expression(text, E=node, V=ast.Name(rewriter.name()))  # type: ignore[arg-type]


# -- calls ----------------------------------------------------------------------------------------------

_PARAMETERS = {
    "add": "input other", "exp": "input", "tanh": "input", "sqrt": "input", "sigmoid": "input", "cat": "tensors",
    "softmax": "input", "relu": "input", "cross_entropy": "input target", "mse_loss": "input target",
    "set_detect_anomaly": "mode", "set_grad_enabled": "mode", "SGD": "params", "Adam": "params",
    "Linear": "in_features",
    "backward": "tensors", "mul_": "other", "add_": "other", "sub_": "other", "clamp_": "min", "Parameter": "data",
}  # fmt: skip


def _by_keyword(rewriter: Rewriter, call: ast.AST) -> ast.AST | None:
    assert isinstance(call, ast.Call)
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    parameters = _PARAMETERS.get(name, "").split()
    if not call.args or len(call.args) > len(parameters) or any(isinstance(item, ast.Starred) for item in call.args):
        return None
    keep = rewriter.random.randrange(len(call.args))
    named = [ast.keyword(*pair) for pair in zip(parameters[keep:], call.args[keep:], strict=False)]
    rewriter.random.shuffle(named)
    return ast.Call(call.func, call.args[:keep], [*named, *call.keywords])


def _by_getattr(rewriter: Rewriter, call: ast.AST) -> ast.AST | None:
    assert isinstance(call, ast.Call)
    if not isinstance(call.func, ast.Attribute):
        return None
    found = _expression("getattr(E, N)", E=call.func.value, N=ast.Constant(call.func.attr))
    return ast.Call(found, call.args, call.keywords)


def _by_class(rewriter: Rewriter, call: ast.AST) -> ast.AST | None:
    assert isinstance(call, ast.Call)
    if not isinstance(call.func, ast.Attribute) or not call.func.attr.endswith(("_", "backward", "exp")):
        return None
    if "torch" in ast.unparse(call.func.value):
        return None
    return ast.Call(_expression(f"torch.Tensor.{call.func.attr}"), [call.func.value, *call.args], call.keywords)


def _by_star(rewriter: Rewriter, call: ast.AST) -> ast.AST | None:
    assert isinstance(call, ast.Call)
    if not call.args or any(isinstance(item, ast.Starred) for item in call.args):
        return None
    return ast.Call(call.func, [ast.Starred(ast.Tuple(call.args))], call.keywords)


def _by_two_stars(rewriter: Rewriter, call: ast.AST) -> ast.AST | None:
    assert isinstance(call, ast.Call)
    named = [item for item in call.keywords if item.arg]
    if not named:
        return None
    options = ast.Dict([ast.Constant(item.arg) for item in named], [item.value for item in named])
    return ast.Call(call.func, call.args, [ast.keyword(None, options)])


# -- statements -----------------------------------------------------------------------------------------


def _assignment(text: str) -> Rewrite:
    """`T = E` in another way; `V` is a new name."""

    def rewrite(rewriter: Rewriter, node: ast.AST) -> list[ast.stmt] | None:
        assert isinstance(node, ast.Assign)
        if len(node.targets) > 1 or (":" in text and not isinstance(node.targets[0], ast.Name)):
            return None
        return _statements(text, T=node.targets[0], E=node.value, V=ast.Name(rewriter.name()))

    return rewrite


def _change(text: str) -> Rewrite:
    """`T += E` or `T.add_(E)` in another way."""

    def rewrite(rewriter: Rewriter, node: ast.AST) -> list[ast.stmt] | None:
        assert isinstance(node, ast.AugAssign)
        operator = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul"}.get(type(node.op))
        return _statements(text.replace("add", operator), T=node.target, E=node.value) if operator else None

    return rewrite


def _wrapping(text: str) -> Rewrite:
    """A statement inside of another, in place of `S`."""

    def rewrite(rewriter: Rewriter, node: ast.AST) -> list[ast.stmt] | None:
        if isinstance(node, (ast.Return, ast.Nonlocal, ast.Global, ast.ClassDef, ast.Import, ast.ImportFrom)):
            return None
        found = _statements(text.replace("V", rewriter.name()))
        for inner in ast.walk(ast.Module(found, [])):
            for block in (value for _, value in ast.iter_fields(inner) if isinstance(value, list)):
                block[:] = [node if _is_named(item, "S") else item for item in block]
        return found

    return rewrite


def _is_named(node: object, name: str) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Name) and node.value.id == name


def _in_function(rewriter: Rewriter, node: ast.AST) -> list[ast.stmt] | None:
    """A statement in a function of its own that is called right there."""
    assert isinstance(node, ast.stmt)
    inner = list(ast.walk(node))
    if any(isinstance(item, (ast.Return, ast.Yield, ast.FunctionDef, ast.ClassDef, ast.Break)) for item in inner):
        return None
    bound = {item.id for item in inner if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store)}
    name = rewriter.name()
    outer = rewriter.random.choice(["nonlocal", "global"])
    lines = [f"    {outer} {', '.join(sorted(bound))}"] if bound else []
    found = _statements("\n".join([f"def {name}():", *lines, "    S", f"{name}()"]))
    assert isinstance(found[0], ast.FunctionDef)
    found[0].body[-1] = node
    return found


def _bound_method(rewriter: Rewriter, node: ast.AST) -> list[ast.stmt] | None:
    """`x.f(...)` as a method that is bound to a name first."""
    assert isinstance(node, ast.Expr)
    if not (isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute)):
        return None
    name = ast.Name(rewriter.name())
    first = _statements("V = F", V=name, F=node.value.func)
    return [*first, ast.Expr(ast.Call(name, node.value.args, node.value.keywords))]


def _asynchronous(rewriter: Rewriter, node: ast.AST) -> list[ast.stmt] | None:
    """A function that is one of `asyncio`'s, with its loops and contexts."""
    assert isinstance(node, ast.FunctionDef)
    return [ast.AsyncFunctionDef(**_fields(_AwaitsInside().visit(node)))]


class _AwaitsInside(ast.NodeTransformer):
    def visit_For(self, node: ast.For) -> ast.AST:
        self.generic_visit(node)
        return ast.AsyncFor(**_fields(node))


def _fields(node: ast.AST) -> dict[str, Any]:
    return dict(ast.iter_fields(node))


def _decorated(rewriter: Rewriter, node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.FunctionDef)
    decorator = rewriter.random.choice(["torch.enable_grad()", "functools.wraps(print)", "profile", "(lambda f: f)"])
    node.decorator_list.append(_expression(decorator))
    return node


def _globals(rewriter: Rewriter, node: ast.AST) -> ast.AST:
    """Names of a function that are the module's."""
    assert isinstance(node, ast.FunctionDef)
    inner = [item for item in ast.walk(node) if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store)]
    bound = sorted({item.id for item in inner} - {item.arg for item in node.args.args})
    if bound and not any(isinstance(item, (ast.Global, ast.FunctionDef)) for item in node.body):
        node.body.insert(0, ast.Global(bound))
    return node


def _in_class(rewriter: Rewriter, node: ast.AST) -> list[ast.stmt] | None:
    """A function as a static method that is called from outside by its old name."""
    assert isinstance(node, ast.FunctionDef)
    if node.args.args and node.args.args[0].arg == "self":
        return None
    holder = _statements(f"class C{rewriter.name()}:\n    pass")
    assert isinstance(holder[0], ast.ClassDef)
    node.decorator_list.insert(0, ast.Name("staticmethod"))
    holder[0].body = [node]
    return [*holder, *_statements(f"{node.name} = {holder[0].name}.{node.name}")]


_REWRITES: tuple[tuple[type[ast.AST], tuple[Rewrite, ...]], ...] = (
    (ast.Call, (_by_keyword, _by_keyword, _by_getattr, _by_class, _by_star, _by_two_stars)),
    (
        ast.Call,
        (
            _template("E if flag else E"),
            _template("(lambda: E)()"),
            _template("[E for V in [0]][0]"),
            _template("(V := E)"),
            _template(f"{BRACKETS}(E)"),
        ),
    ),
    (
        ast.Name,
        (
            _template(f"{BRACKETS}(E)"),
            _template("(E, 0)[0]"),
            _template("[*[E]][0]"),
            _template("{'k': E}['k']"),
            _template("(V := E)"),
            _template("E or None"),
            _template("E if True else None"),
        ),
    ),
    (ast.Attribute, (_template(f"{BRACKETS}(E)"), _template("(E, 0)[0]"), _template("(V := E)"))),
    (
        ast.Assign,
        (
            _assignment("T, V = E, 0"),
            _assignment("[V, T] = [0, E]"),
            _assignment("V = T = E"),
            _assignment("T = V = E"),
            _assignment("T, *V = E, 0, 1"),
            _assignment("(V, (T, *_)) = 0, (E, 1)"),
            _assignment("T: object = E"),
            _assignment("if (T := E) is not None:\n    pass"),
            _assignment("for T in [E]:\n    pass"),
            _assignment("with contextlib.nullcontext(E) as T:\n    pass"),
            _assignment("match E:\n    case T:\n        pass"),
            _assignment("T = E if flag else E"),
            _assignment("T = [E][0]"),
            _assignment("V = E\nT = V\ndel V"),
            _assignment("T = None\nT = E"),
            _assignment("def V():\n    return E\nT = V()"),
            _assignment("V = lambda: E\nT = V()"),
        ),
    ),
    (
        ast.AugAssign,
        (
            _change("T.add_(E)"),
            _change("T.add_(other=E)"),
            _change("torch.add(T, E, out=T)"),
            _change("torch.add(out=T, other=E, input=T)"),
            _change("T[...] = T + E"),
            _change("T[:] += E"),
            _change("T[...], _ = E, 0"),
            _change("T.data += E"),
            _change("T.view(-1).add_(E)"),
            _change("T.__iadd__(E)"),
            _change("torch.Tensor.add_(T, E)"),
            _change("getattr(T, 'add_')(E)"),
            _change("operator.iadd(T, E)"),
        ),
    ),
    (
        ast.stmt,
        (
            _wrapping("if flag:\n    S"),
            _wrapping("if True:\n    S\nelse:\n    pass"),
            _wrapping("try:\n    S\nfinally:\n    pass"),
            _wrapping("try:\n    S\nexcept ValueError as error:\n    raise"),
            _wrapping("with contextlib.nullcontext():\n    S"),
            _wrapping("with contextlib.nullcontext() as V, open('f'):\n    S"),
            _wrapping("for V in range(1):\n    S"),
            _wrapping("while True:\n    S\n    break"),
            _wrapping("match flag:\n    case 1:\n        S\n    case _:\n        pass"),
            _wrapping("S\nV = 0\ndel V"),
            _wrapping("global V\nS"),
            _in_function,
        ),
    ),
    (ast.Expr, (_bound_method,)),
    (ast.FunctionDef, (_asynchronous, _decorated, _globals, _in_class)),
)
