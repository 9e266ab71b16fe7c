"""Whether functions of a file call something, and in which loops: only those are read in which a word stands."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterable, Iterator, Set
from functools import lru_cache
from typing import TypeGuard

from torchlint.files.python import UNREADABLE
from torchlint.lazy_pattern import LazyPattern
from torchlint.prefilter.names import dotted, last, switches_off, switches_on
from torchlint.prefilter.outline import Function, Outline
from torchlint.pytorch import api
from torchlint.pytorch.effects import GoesBackward, Keeps, Steps, TakesGradients
from torchlint.pytorch.naming import is_called_as_module
from torchlint.pytorch.table import last_names_with

_BACKWARD = last_names_with(GoesBackward)
_STEPPING = last_names_with(Steps, TakesGradients)
_KEEPING = last_names_with(Keeps) | api.ACCUMULATING_IN_PLACE
_LOOPS = (ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_LOOP = LazyPattern(rb"\b(?:for|while)\b")
_OPTIMIZES = LazyPattern(rb"opt(?:\w*\.step|im\.[A-Z]\w*|im\w*[sz]ers?)[ \t]*\(")
"""An optimizer steps or is made, or what makes one by its name is called: `make_optimizer(args, model)`."""
_DEFINES = LazyPattern(rb"\bdef[ \t]+\w*$")
_SWITCHES = LazyPattern(rb"\btrain\b(?!\(\))(?<=\.train)")
"""`train` of an object, in another way than to switch to training."""
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@lru_cache(maxsize=1)
def goes_backward(outline: Outline) -> bool:
    """Whether a file calls `backward` or hands it on, rather than define it or speak of it."""
    names = {spelling for name in _BACKWARD for spelling in outline.spellings(name)}
    functions = dict.fromkeys(function for name in names for function in outline.users(name))
    return any(_mentions_in(outline, function, names) for function in functions)


def optimizing(data: bytes) -> Iterator[int]:
    """Where an optimizer steps or is made."""
    places = (found.start() for found in _OPTIMIZES.finditer(data))
    return (place for place in places if not _DEFINES.search(data, max(0, place - 80), place))


def training_names(outline: Outline) -> frozenset[bytes]:
    """The functions and classes of a file that go backward, or have an optimizer though nothing there does.

    At once or through each other, by name.
    """
    spellings = {spelling for name in _BACKWARD for spelling in outline.spellings(name)}
    users = {function for name in spellings for function in outline.users(name)}
    users = users or {outline.around(place) for place in optimizing(outline.data)}
    found: set[str] = set()
    while names := {function.owner or function.name for function in users if function is not None} - found:
        found |= names
        users = {function for name in names for function in outline.users(name)}
    return frozenset(name.encode() for name in found)


def repeats(outline: Outline, name: str) -> bool:
    """Whether a file calls something in every iteration of a loop that computes, itself or in what it calls there.

    So may one that hands it on without calling it, or calls it from an object that is called.
    """
    names, done = set(outline.spellings(name)), set[str]()
    while todo := names - done:
        done |= todo
        users = dict.fromkeys(user for item in todo for user in outline.users(item))
        for function in users:
            if _hands_on(outline, function, todo) or _repeats_in(outline, function, todo):
                return True
            if function is not None and _calls_in(outline, function, todo, _always):
                names.add(function.owner if function.name == "__init__" else function.name)
    return "__call__" in names


def calls_in_method(outline: Outline, method: str, names: Iterable[str]) -> bool:
    """Whether a method of this name, or something that it calls at once, mentions one of these names."""
    users = {function for name in names for function in outline.users(name) if function is not None}
    nested = b"def " + method.encode()
    return any(
        function.name == method
        or nested in outline.text(function)
        or any(caller is not None and caller.name == method for caller in outline.callers(function.name))
        for function in users
    )


def _repeats_in(outline: Outline, part: Function | None, names: Set[str]) -> bool:
    """Whether a loop of a part calls something of these names in every iteration, and computes or steps."""

    def repeats_one(loop: ast.AST) -> bool:
        calls = any(_is_call(node, names) for node in _always(loop))
        return calls and any(_is_call(node, _STEPPING) or _may_compute(outline, node) for node in ast.walk(loop))

    return _holds_in(outline, part, lambda tree: any(map(repeats_one, _of_types(ast.walk(tree), _LOOPS))))


def _within(node: ast.AST, inner: Callable[[ast.AST], Iterable[ast.AST]]) -> Iterator[ast.AST]:
    """A node and what is in it, as far as `inner` leads."""
    stack = [node]
    while stack:
        item = stack.pop()
        yield item
        stack.extend(inner(item))


def _always(node: ast.AST) -> Iterator[ast.AST]:
    """What is in a node and on no condition."""
    return _within(node, lambda item: [item.test] if _is_condition(item) else ast.iter_child_nodes(item))


def _is_condition(node: ast.AST) -> TypeGuard[ast.If | ast.IfExp]:
    return isinstance(node, (ast.If, ast.IfExp)) and not isinstance(node.test, ast.Constant)


def _with_gradients(node: ast.AST) -> Iterator[ast.AST]:
    """What is in a node, but for what surely runs without gradients."""
    return _within(node, lambda item: (it for it in ast.iter_child_nodes(item) if not _is_without_gradients(it)))


def keeps_while_evaluating(outline: Outline) -> bool:
    """Whether something is kept in a loop, with gradients on, where a model is switched to evaluation."""
    return any(_keeps(outline, part) for part in _evaluating(outline, outline.users("eval")))


def computes_while_evaluating(outline: Outline) -> bool:
    """Whether something is computed in a loop, with gradients on, where a model is switched to evaluation."""
    switching = [*outline.users("eval"), *(outline.users("train") if _SWITCHES.search(outline.data) else ())]
    return any(_computes(outline, part) for part in _evaluating(outline, switching))


def _evaluating(outline: Outline, switching: Iterable[Function | None]) -> Iterator[Function | None]:
    """The parts with a loop that are reached from where a model is switched to evaluation."""
    evaluating = _reaching(outline, switching)
    for part in outline.parts if evaluating else ():
        if _LOOP.search(outline.text(part)) and not evaluating.isdisjoint(_reaching(outline, [part])):
            yield part


def _reaching(outline: Outline, functions: Iterable[Function | None]) -> set[Function | None]:
    """Functions, those that call them or hand them on, and so on."""
    found = set(functions)
    todo = list(found)
    while todo:
        function = todo.pop()
        users = set(outline.users(function.name)) - found if function else set()
        found |= users
        todo.extend(users)
    return found


def _holds_in(outline: Outline, part: Function | None, question: Callable[[ast.Module], bool]) -> bool:
    """The answer to a question about a part; if it cannot be read, yes."""
    try:
        return question(outline.tree(part))
    except UNREADABLE:
        return True


def _calls_in(
    outline: Outline,
    part: Function | None,
    names: Set[str],
    nodes: Callable[[ast.AST], Iterator[ast.AST]] = ast.walk,
) -> bool:
    """Whether a part calls something of these names."""
    return _holds_in(outline, part, lambda tree: any(_is_call(node, names) for node in nodes(tree)))


def _mentions_in(outline: Outline, part: Function | None, names: Set[str]) -> bool:
    """Whether a part calls something of these names, or hands it on."""
    return _holds_in(outline, part, lambda tree: any(_is_mention(node, names) for node in ast.walk(tree)))


def _hands_on(outline: Outline, part: Function | None, names: Set[str]) -> bool:
    """Whether a part mentions something of these names without calling it, or gives it another name."""

    def hands_on(tree: ast.Module) -> bool:
        nodes = list(ast.walk(tree))
        called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
        return any(_is_mention(node, names) and id(node) not in called and not _is_import(node) for node in nodes)

    return _holds_in(outline, part, hands_on)


def _is_import(node: ast.AST) -> bool:
    """Whether a node imports something under its own name."""
    return isinstance(node, ast.alias) and node.asname is None


def _is_mention(node: ast.AST, names: Set[str]) -> bool:
    """Whether a node is one of these names, where it is not defined: in an import too, and in a call of `getattr`."""
    if isinstance(node, ast.Attribute):
        return node.attr in names
    if isinstance(node, ast.Name):
        return node.id in names
    if isinstance(node, ast.alias):
        return node.name in names
    return isinstance(node, ast.Call) and last(node.func) == "getattr" and _asks_for(node, names)


def _asks_for(call: ast.Call, names: Set[str]) -> bool:
    return any(not isinstance(item, ast.Constant) or item.value in names for item in call.args[1:2])


def _of_types(nodes: Iterable[ast.AST], types: tuple[type[ast.AST], ...]) -> Iterator[ast.AST]:
    return (node for node in nodes if isinstance(node, types))


def _is_call(node: ast.AST, names: Set[str]) -> bool:
    return isinstance(node, ast.Call) and last(node.func) in names


def _keeps(outline: Outline, part: Function | None) -> bool:
    """Whether a part keeps in a loop what it computes there with gradients on."""

    def keeps_in(loop: ast.AST) -> bool:
        nodes = list(_with_gradients(loop))
        return any(map(_is_keep, nodes)) and any(_may_compute(outline, node) for node in nodes)

    loops = (ast.For, ast.AsyncFor)
    return _holds_in(outline, part, lambda tree: any(map(keeps_in, _of_types(_with_gradients(tree), loops))))


def _computes(outline: Outline, part: Function | None) -> bool:
    """Whether a part computes in a loop with gradients on."""

    def computes_in(loop: ast.AST) -> bool:
        return any(_may_compute(outline, node) for node in _with_gradients(loop))

    return _holds_in(outline, part, lambda tree: any(map(computes_in, _of_types(_with_gradients(tree), _LOOPS))))


def _may_compute(outline: Outline, node: ast.AST) -> bool:
    """Whether a node may call a module with something, or a function of the file that does."""
    if not isinstance(node, ast.Call) or not (node.args or node.keywords):
        return False
    if isinstance(node.func, ast.Attribute):
        name = node.func.attr
        return name in outline.by_name or dotted(node.func.value) in ("self", "cls") or is_called_as_module(name)
    if isinstance(node.func, ast.Name):
        name = node.func.id
        return not (name in outline.module_imports or name in outline.bases or hasattr(builtins, name))
    return True


def _is_without_gradients(node: ast.AST) -> bool:
    if isinstance(node, (ast.With, ast.AsyncWith)):
        switches = [each.context_expr for each in node.items]
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        switches = node.decorator_list
    else:
        return False
    inside = (each for part in node.body for each in ast.walk(part))
    return any(map(switches_off, switches)) and not any(map(_may_have_gradients, inside))


def _may_have_gradients(node: ast.AST) -> bool:
    """Whether something in a block without gradients may still run with them."""
    return isinstance(node, _FUNCTIONS) or (isinstance(node, ast.Call) and switches_on(node))


def _may_add(node: ast.AST) -> bool:
    """Whether an expression may be a sum that goes on."""
    return isinstance(node, ast.BinOp) or (isinstance(node, ast.Call) and last(node.func) in api.ACCUMULATING)


def _is_keep(node: ast.AST) -> bool:
    """Whether a node may keep a value beyond an iteration."""
    if isinstance(node, ast.Call):
        return last(node.func) in _KEEPING
    if isinstance(node, (ast.AugAssign, ast.Assign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        sums = isinstance(node, ast.AugAssign) or any(map(_may_add, ast.walk(node.value)))
        return sums or any(isinstance(item, ast.Subscript) for target in targets for item in ast.walk(target))
    return False
