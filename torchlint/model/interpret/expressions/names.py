"""Names of the program: local, enclosing, global, imported, or Python's own."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.model.definitions import Definitions
from torchlint.model.frames import Frame
from torchlint.model.imports import Imports, Target
from torchlint.model.interpret.machine import Machine, Part
from torchlint.model.interpret.transfer.attributes import Attributes
from torchlint.model.interpret.transfer.grad_modes import decorated_mode
from torchlint.model.state import MAX_ELSEWHERE
from torchlint.model.values import Class, External, Function, Instance, SourceModule, UndefinedName, Value
from torchlint.model.wrappers import fills_table


class Names(Part):
    """Looks up names, also in the modules that the program imports."""

    def __init__(self, machine: Machine, attributes: Attributes, imports: Imports | None) -> None:
        super().__init__(machine)
        self.attributes = attributes
        self._imports = imports
        self._globals: dict[tuple[Definitions, str], Value] = {}
        """Imported names, functions not defined yet, builtins, and unknown names."""
        self._under_way: set[tuple[Definitions, str]] = set()
        """Imported names of other modules whose lookup is in progress."""
        self._run: set[Definitions] = set()
        """Modules whose statements were interpreted, or are being interpreted."""

    def lookup(self, name: str, node: ast.AST | None = None) -> Value:
        """The value of a name here: local, enclosing, global, imported, or unknown."""
        frame: Frame | None = self.state.frame
        while frame is not None:
            found = frame.locals.get(name)
            if found is not None:
                return found
            frame = frame.parent
        return self._global(name, node)

    def imported(self, qualified: str, node: ast.AST | None) -> Value:
        """The value an import binds: a definition of a module of the repository, or an unknown value of this name."""
        return self._of_repository(qualified, node) or External(node, qualified)

    def member(self, owner: SourceModule, name: str, node: ast.AST | None) -> Value | None:
        """An attribute of a module of the repository; None if it is not known."""
        target = self._imports.member(owner.base, name) if self._imports is not None else None
        return self._found(target, f"{owner.name}.{name}", node)

    def _global(self, name: str, node: ast.AST | None) -> Value:
        here = self.definitions
        found = self._globals.get((here, name))
        if found is None:
            if here is not self.machine.own and (of_module := self._of_module(here, name, node)) is not None:
                return of_module
            target = here.imported(name)
            defined = here.function_named(name)
            if target is None and defined is not None:
                return Function(defined, self.state.frame_of(here))
            found = self._any_of(here, name, target, node) if target else UndefinedName(None, (), name)
            self._globals[here, name] = found
        return found

    def _any_of(self, here: Definitions, name: str, target: str, node: ast.AST | None) -> Value:
        """The value a module imports under a name; with `try`, from one of several places."""
        for alternative in here.scopes.alternatives.get(name, ())[:-1]:
            found = self._of_repository(alternative, node)
            if found is not None:
                return found
        return self.imported(target, node)

    def _of_repository(self, qualified: str, node: ast.AST | None) -> Value | None:
        target = self._imports.target(qualified, self.definitions) if self._imports is not None else None
        return self._found(target, qualified, node)

    def _found(self, target: Target | None, qualified: str, node: ast.AST | None) -> Value | None:
        if target is None:
            return None
        return self._part(target, node) if target.rest else SourceModule(node, qualified, target.base)

    def _part(self, target: Target, node: ast.AST | None) -> Value | None:
        """The value a module defines under a name, or an attribute of that value."""
        definitions, (name, *rest) = target.definitions, target.rest
        if definitions is None:
            return None
        found = self._of_module(definitions, name, node)
        for attribute in rest:
            if found is None:
                return None
            found = self.attributes.lookup(found, attribute, node)
        return found

    def _of_module(self, definitions: Definitions, name: str, node: ast.AST | None) -> Value | None:
        """The value another module binds to a name at its top level; None if that is not known."""
        frame = self.state.frame_of(definitions)
        found = frame.locals.get(name)
        if found is not None:
            return found
        if not definitions.binds(name):
            by_star = definitions.imported(name) if definitions.scopes.star_imports else None
            return self._handed_on(definitions, name, by_star, node) if by_star is not None else None
        if definitions.is_only_defined(name):
            found = frame.locals[name] = self._defined(definitions, name, frame)
        elif name in definitions.imports:
            found = self._handed_on(definitions, name, definitions.imports[name], node)
        else:
            self._interpret(definitions, frame)
            found = frame.locals.get(name)
        return found

    def _handed_on(self, definitions: Definitions, name: str, target: str, node: ast.AST | None) -> Value | None:
        """The value another module imports under a name, from `target`; modules may import each other in a circle."""
        key = definitions, name
        if key in self._under_way:
            return None
        self._under_way.add(key)
        before, self.state.frame = self.state.frame, self.state.frame_of(definitions)
        found = self._any_of(definitions, name, target, node)
        self.state.frame = before
        self._under_way.discard(key)
        return found

    def _defined(self, definitions: Definitions, name: str, frame: Frame) -> Value:
        function = definitions.function_named(name)
        if function is not None:
            return Function(function, frame, mode=decorated_mode(function, self.state))
        return Class(definitions.class_names[name], frame)

    def _interpret(self, definitions: Definitions, frame: Frame) -> None:
        """Interpret the statements of another module once, to find the names that they bind."""
        if definitions in self._run or self.state.elsewhere >= MAX_ELSEWHERE:
            return
        self._run.add(definitions)
        with self.state.aside(()):
            self.state.frame = frame
            self.machine.run(definitions.tree.module.body)
            self.observations.stored.update(self.state.heap)
        for other in self._registering(definitions, frame):
            self._interpret(other, self.state.frame_of(other))

    def _registering(self, definitions: Definitions, frame: Frame) -> Iterator[Definitions]:
        """The modules whose decorators register classes and functions in the tables of a module."""
        objects = ((name, value) for name, value in frame.locals.items() if isinstance(value, Instance))
        words = [f"@{name}." for name, value in objects if any(map(fills_table, value.info.methods.values()))]
        words += [
            f"@{info.name}"
            for info in definitions.functions.values()
            if info.owner is None and info.enclosing is None and fills_table(info)
        ]
        found = self._imports.beside(definitions, words) if self._imports is not None and words else ()
        yield from (other for other in found if other is not self.machine.own)
