"""The order in which functions become roots: callers first, wherever they are in the file."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from torchlint.index import FileIndex
from torchlint.model.definitions import Definitions, FunctionInfo


def may_run(function: FunctionInfo) -> bool:
    """Whether a function may run as Python code: it is not compiled, and no method of a class without objects."""
    item: FunctionInfo | None = function
    while item is not None:
        if item.decorators and item.is_compiled:
            return False
        needs_object = item.is_method and not item.has_decorator("classmethod") and item.name != "__init__"
        if needs_object and item.owner is not None and item.owner.has_no_objects:
            return False
        item = item.enclosing
    return True


def callers_first(functions: Collection[FunctionInfo], definitions: Definitions) -> list[FunctionInfo]:
    """Functions in an order with uncalled ones first, and each one after its callers.

    A function that another root enters is no root, so its possible callers come first. Of two functions that name each
    other, the one with the smaller name comes first.
    """
    if len(functions) < 2:  # as in most files: then no name needs a lookup
        return list(functions)
    called = FileIndex.of(definitions.tree).called_names
    wanted = sorted(functions, key=lambda info: (info.name in called, *_full_name(info)))
    callers = _callers(wanted, definitions)
    ordered: dict[FunctionInfo, None] = {}
    seen: set[FunctionInfo] = set()
    for function in wanted:
        stack = [(function, iter(callers[function]))]
        while stack:
            info, left = stack[-1]
            seen.add(info)
            caller = next((item for item in left if item not in seen), None)
            if caller is not None:
                stack.append((caller, iter(callers[caller])))
            else:
                ordered[info] = None
                stack.pop()
    return list(ordered)


def _callers(functions: list[FunctionInfo], definitions: Definitions) -> dict[FunctionInfo, list[FunctionInfo]]:
    """The callers of each function among some functions: those that name it, or the one that contains it."""
    found: dict[FunctionInfo, set[FunctionInfo]] = {info: set() for info in functions}
    by_name: dict[str, list[FunctionInfo]] = {}
    for info in functions:
        by_name.setdefault(info.name, []).append(info)
        if info.enclosing in found:
            found[info].add(info.enclosing)
    for name, node in _names(definitions):
        for named in by_name.get(name, ()):
            if (named.owner is not None) is isinstance(node, ast.Attribute):
                around = definitions.function_around(node)
                if around in found and around is not named:
                    found[named].add(around)
    rank = {info: number for number, info in enumerate(functions)}
    return {info: sorted(callers, key=rank.__getitem__) for info, callers in found.items()}


def _names(definitions: Definitions) -> Iterator[tuple[str, ast.AST]]:
    """The names of functions in the file with their nodes: a plain name, or the method's name behind `self.`."""
    for node in definitions.tree.of_type(ast.Name):
        yield node.id, node
    for node in definitions.tree.of_type(ast.Attribute):
        if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
            yield node.attr, node


def _full_name(info: FunctionInfo) -> tuple[str, ...]:
    outer = _full_name(info.enclosing) if info.enclosing is not None else ()
    return (*outer, *([info.owner.name] if info.owner is not None else []), info.name)
