"""Imports of what a program uses of a package: by any name, in any scope."""

from __future__ import annotations

import ast
from itertools import count
from random import Random

_PACKAGES = ("torch", "lightning", "contextlib", "functools", "operator")
_MODULES = frozenset(
    "torch torch.nn torch.nn.functional torch.optim torch.autograd torch.cuda torch.cuda.amp lightning contextlib "
    "functools operator".split()
)


def import_names(tree: ast.Module, random: Random) -> None:
    """Write each use of a package's names in a way that is drawn at random, and import it."""
    _Imports(tree, random).write()


class _Imports:
    def __init__(self, tree: ast.Module, random: Random) -> None:
        self.tree = tree
        self.random = random
        self.numbers = count()
        self.lines: dict[str, None] = {"import torch": None}
        self.aliases: dict[str, None] = {}
        self.spellings: dict[str, str] = {}
        self.plain = random.random() < 0.4

    def write(self) -> None:
        _Rename(self).visit(self.tree)
        statements = [statement for line in self.lines for statement in ast.parse(line).body]
        place = self.random.random()
        functions = [node for node in self.tree.body if isinstance(node, ast.FunctionDef)]
        if place < 0.15 and len(functions) == len(self.tree.body):
            for function in functions:
                function.body[:0] = statements
        elif place < 0.25:
            self.tree.body[:0] = [_tried(statements)] if statements else []
        else:
            self.tree.body[:0] = statements
        found = [statement for line in self.aliases for statement in ast.parse(line).body]
        self.tree.body[len(statements) : len(statements)] = found if place >= 0.25 else []
        if place < 0.25 and found:
            self.tree.body[:0] = [*ast.parse("import torch, contextlib, functools, operator, lightning").body, *found]

    def spelled(self, qualified: str) -> str:
        if qualified not in self.spellings:
            self.spellings[qualified] = self._spelled(qualified)
        return self.spellings[qualified]

    def _spelled(self, qualified: str) -> str:
        module, _, name = qualified.rpartition(".")
        while module not in _MODULES:
            inner, _, first = module.rpartition(".")
            module, name = inner, f"{first}.{name}"
        first, dot, rest = name.partition(".")
        root = qualified.partition(".")[0]
        new = self.random.choice([f"n{next(self.numbers)}", f"\u03b8{next(self.numbers)}"])
        way = 0 if self.plain else self.random.randrange(8)
        if way in (0, 1):
            self.lines[f"import {root}"] = None
            return qualified
        if way == 2:
            self.lines[f"import {root} as {new}"] = None
            return new + qualified.removeprefix(root)
        if way == 3:
            self.lines[f"from {module} import {first}"] = None
            return name
        if way == 4:
            self.lines[f"from {module} import {first} as {new}, {first}"] = None
            return new + dot + rest
        if way == 5 and "." in module:
            parent, _, last = module.rpartition(".")
            self.lines[f"from {parent} import {last} as {new}"] = None
            return f"{new}.{name}"
        if way == 6:
            self.lines[f"import {module} as {new}"] = None
            return f"{new}.{name}"
        self.lines[f"import {root}"] = None
        self.aliases[f"{new} = {module}.{first}"] = None
        return new + dot + rest


def _tried(statements: list[ast.stmt]) -> ast.stmt:
    return ast.Try(statements, [ast.ExceptHandler(ast.Name("ImportError"), None, [ast.Raise()])], [], [])


class _Rename(ast.NodeTransformer):
    def __init__(self, imports: _Imports) -> None:
        self.imports = imports

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        text = ast.unparse(node)
        if text.partition(".")[0] in _PACKAGES and text.replace(".", "").replace("_", "a").isalnum():
            return ast.parse(self.imports.spelled(text), mode="eval").body
        return self.generic_visit(node)
