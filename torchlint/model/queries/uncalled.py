"""Functions and classes that a script defines and never reaches: no line that runs mentions them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cached_property
from typing import TypeAlias

from torchlint.model.definitions import ClassInfo, Definitions
from torchlint.syntax.python_ast import FUNCTIONS, is_main_guard, site_of

_Defined: TypeAlias = "ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef"
_Scope: TypeAlias = "_Defined | None"
"""A function or class, or None for the module's top level."""
_SCOPES = (*FUNCTIONS, ast.ClassDef)
_BASES = frozenset({"torch.nn.Module", "torch.nn.modules.module.Module", "object", "abc.ABC"})
"""Base classes that call only the `forward` of a subclass."""
_ANY_NAME = frozenset({"globals", "exec", "eval", "fire", "Fire"})
"""Names through which a script may reach any of its definitions."""
_SAME = frozenset({"no_grad", "enable_grad", "inference_mode", "staticmethod", "classmethod", "property"})
"""Decorators that call nothing themselves."""
_MAKING = frozenset({"__init__", "__post_init__"})
_WORD = re.compile(r"\w+")
_LONGEST = 200
"""Maximum length of a text that may name something; longer ones are prose."""


class Uncalled:
    """The functions and classes of a script that no path from its first line mentions."""

    def __init__(self, definitions: Definitions) -> None:
        self._definitions = definitions
        self._tree = definitions.tree

    def holds(self, line: int) -> bool:
        """Whether a line of the file is in one of them; never in a file that is no script."""
        if not self._is_script:
            return False
        around = (item for item in self._around if item.lineno <= line <= (item.end_lineno or 0))
        return any(item not in self._reached for item in around)

    def calls(self) -> list[ast.Call]:
        """The calls that the script reaches, in the order of the file; not those of methods that only Python calls."""
        found = []
        for call in self._tree.of_type(ast.Call):
            scope = self._scope_of(call)
            is_special = scope is not None and scope.name.startswith("__") and scope.name not in _MAKING
            if scope in self._reached and not is_special:
                found.append(call)
        return sorted(found, key=site_of)

    @cached_property
    def _is_script(self) -> bool:
        """Whether the file is meant to run: its top level has a main guard, a loop, or a call of its own function."""
        return any(
            isinstance(item, (ast.For, ast.While))
            or (isinstance(item, ast.If) and is_main_guard(item.test))
            or (isinstance(item, (ast.Expr, ast.Assign)) and self._calls_own(item.value))
            for item in self._tree.module.body
        )

    def _calls_own(self, value: ast.expr) -> bool:
        """Whether an expression calls a function of the file, or a method of an object created in it."""
        while isinstance(value, ast.Call):
            called = value.func
            if isinstance(called, ast.Name):
                return any(self._around[item] is None for item in self._named.get(called.id, ()))
            value = called.value if isinstance(called, ast.Attribute) else called
        return False

    @cached_property
    def _reached(self) -> set[_Scope]:
        """The functions and classes reached from the top level."""
        reached: set[_Scope] = {None}
        said: set[str] = set()
        waiting: list[_Scope] = [None]
        while waiting:
            scope = waiting.pop()
            new = self._said.get(scope, set()) - said
            said |= new
            if new & _ANY_NAME:
                return {None, *self._around}
            for item in (*self._inside.get(scope, ()), *(item for word in new for item in self._named.get(word, ()))):
                if item not in reached and self._is_mentioned(item, reached, said):
                    reached.add(item)
                    waiting.append(item)
        return reached

    def _is_mentioned(self, item: _Defined, reached: set[_Scope], said: set[str]) -> bool:
        """Whether reached code mentions a function or class: by its name, or through its class."""
        around = self._around[item]
        if around not in reached:
            return False
        if any(_name_of(decorator) not in _SAME for decorator in item.decorator_list):
            return True
        if not isinstance(around, ast.ClassDef):
            return item.name in said
        is_special = item.name == "forward" or item.name.startswith("__")
        return is_special or f".{item.name}" in said or self._may_be_called_by_others(around)

    def _may_be_called_by_others(self, node: ast.ClassDef) -> bool:
        """Whether a class derives from one that may call its methods."""
        info = self._definitions.classes.get(node)
        bases = (base for base in info.ancestors() if not isinstance(base, ClassInfo)) if info is not None else [""]
        return any(base not in _BASES for base in bases)

    @cached_property
    def _around(self) -> dict[_Defined, _Scope]:
        """The functions and classes, each with the scope around it."""
        return {item: self._scope_of(item) for item in self._tree.of_type(*_SCOPES)}

    @cached_property
    def _inside(self) -> dict[_Scope, list[_Defined]]:
        """The same by the scope around them."""
        found: dict[_Scope, list[_Defined]] = {}
        for item, around in self._around.items():
            found.setdefault(around, []).append(item)
        return found

    @cached_property
    def _named(self) -> dict[str, list[_Defined]]:
        """The same by the words that may refer to them."""
        found: dict[str, list[_Defined]] = {}
        for item in self._around:
            found.setdefault(item.name, []).append(item)
            found.setdefault(f".{item.name}", []).append(item)
        return found

    @cached_property
    def _said(self) -> dict[_Scope, set[str]]:
        """The names in each scope itself; attribute names and names in texts count as both kinds."""
        said: dict[_Scope, set[str]] = {}
        for node in self._tree.of_type(ast.Name, ast.Attribute, ast.Constant):
            said.setdefault(self._scope_of(node), set()).update(_words(node))
        return said

    def _scope_of(self, node: ast.AST) -> _Scope:
        """The innermost function or class whose body contains a node; decorators and bases are outside of it."""
        inner = node
        for item in self._tree.ancestors(node):
            if isinstance(item, _SCOPES) and isinstance(inner, ast.stmt):
                return item
            inner = item
        return None


def _words(node: ast.Name | ast.Attribute | ast.Constant) -> Iterator[str]:
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Attribute):
        yield f".{node.attr}"
    elif isinstance(node.value, str) and len(node.value) < _LONGEST:
        for word in _WORD.findall(node.value):
            yield word
            yield f".{word}"


def _name_of(decorator: ast.expr) -> str:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
