"""The interface through which a part of the interpreter uses the layers above it."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import MappingProxyType

from torchlint.model.arguments import Arguments, Flags
from torchlint.model.definitions import ClassInfo, Definitions, FunctionInfo
from torchlint.model.frames import Frame
from torchlint.model.observations import Observations
from torchlint.model.state import State
from torchlint.model.values import Function, SourceModule, Value
from torchlint.syntax.python_ast import Visit


class Machine(ABC):
    """The interpreter as its parts see it: the shared state, and the access to the layers above.

    A part gets the parts below it through its constructor. It reaches those above it through these methods only.
    """

    def __init__(self, own: Definitions, visit: Visit, state: State) -> None:
        self.own = own
        """The definitions of the linted module."""
        self.visit = visit
        self.state = state

    # -- expressions --------------------------------------------------------------------------------

    @abstractmethod
    def value(self, node: ast.expr) -> Value:
        """The value of an expression at this point of the program."""

    @abstractmethod
    def read(self, name: str, node: ast.AST | None = None) -> Value:
        """The value of a name here: local, enclosing, global, imported, or unknown."""

    @abstractmethod
    def member(self, owner: SourceModule, name: str, node: ast.AST | None) -> Value | None:
        """The value a module of the repository binds to a name; None if that is not known."""

    @abstractmethod
    def write(self, target: ast.expr, value: Value) -> None:
        """Bind the target of an assignment to a value."""

    @abstractmethod
    def change(self, node: ast.Call, changed: Value, name: str, arguments: Arguments) -> Value:
        """Change the expression before the dot of `x.add_(y)` in place."""

    @abstractmethod
    def call(self, callee: Value, arguments: Arguments, node: ast.Call) -> Value:
        """The result of calling a value."""

    @abstractmethod
    def call_method(self, receiver: Value, name: str, arguments: Arguments, node: ast.Call) -> Value:
        """The result of `receiver.name(arguments)`."""

    # -- control flow -------------------------------------------------------------------------------

    @abstractmethod
    def run(self, body: Sequence[ast.stmt]) -> None:
        """Interpret a block up to the point where it certainly leaves."""

    @abstractmethod
    def inline(
        self, function: Function, arguments: Arguments, node: ast.AST, block: Callable[[Value], None] | None = None
    ) -> Value:
        """Interpret a function's body at a call and return its result.

        At the `yield` of a context manager, the `block` of its `with` statement runs.
        """

    @abstractmethod
    def aside(
        self,
        method: FunctionInfo,
        receiver: Value,
        flags: Flags = frozenset(),
        attributes: Mapping[str, Value] = MappingProxyType({}),
    ) -> AbstractContextManager[tuple[Frame, Mapping[str, Value]]]:
        """Interpret a method with some flags on an object with some attributes, aside from the program.

        Inside the context, the state is the one at the method's end. Yields its frame and its initial parameters.
        """

    @abstractmethod
    def template(self, info: ClassInfo) -> Value:
        """The object that represents every instance of a class, with the attributes that `__init__` stores."""


class Part:
    """One area of the interpreter's work."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.state = machine.state

    @property
    def observations(self) -> Observations:
        """The observations of the current root."""
        return self.state.observations

    @property
    def definitions(self) -> Definitions:
        """The definitions of the current module."""
        return self.state.frame.definitions
