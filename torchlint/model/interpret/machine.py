"""What a part of the interpreter may ask of the layers above it."""

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
    """The interpreter as its parts know it: what all of them work on, and the way up.

    A part gets the parts below it through its constructor. It reaches those above it through these methods only.
    """

    def __init__(self, own: Definitions, visit: Visit, state: State) -> None:
        self.own = own
        """Those of the module that is linted."""
        self.visit = visit
        self.state = state

    # -- expressions --------------------------------------------------------------------------------

    @abstractmethod
    def value(self, node: ast.expr) -> Value:
        """The value of an expression at this point of the program."""

    @abstractmethod
    def read(self, name: str, node: ast.AST | None = None) -> Value:
        """What a name stands for here: local, enclosing, global, imported, or unknown."""

    @abstractmethod
    def member(self, owner: SourceModule, name: str, node: ast.AST | None) -> Value | None:
        """What a module of the repository binds a name to; None where that is not known."""

    @abstractmethod
    def write(self, target: ast.expr, value: Value) -> None:
        """Bind the target of an assignment to a value."""

    @abstractmethod
    def change(self, node: ast.Call, changed: Value, name: str, arguments: Arguments) -> Value:
        """Change what stands before the dot of `x.add_(y)` in place."""

    @abstractmethod
    def call(self, callee: Value, arguments: Arguments, node: ast.Call) -> Value:
        """The result of calling a value."""

    @abstractmethod
    def call_method(self, receiver: Value, name: str, arguments: Arguments, node: ast.Call) -> Value:
        """The result of `receiver.name(arguments)`."""

    # -- control flow -------------------------------------------------------------------------------

    @abstractmethod
    def run(self, body: Sequence[ast.stmt]) -> None:
        """Interpret a block up to where it certainly leaves."""

    @abstractmethod
    def inline(
        self, function: Function, arguments: Arguments, node: ast.AST, block: Callable[[Value], None] | None = None
    ) -> Value:
        """Interpret a function's body at a call; the value is what it returns.

        Where a context manager yields, the `block` of its `with` statement runs.
        """

    @abstractmethod
    def aside(
        self,
        method: FunctionInfo,
        receiver: Value,
        flags: Flags = frozenset(),
        attributes: Mapping[str, Value] = MappingProxyType({}),
    ) -> AbstractContextManager[tuple[Frame, Mapping[str, Value]]]:
        """Interpret a method, with some flags, of an object with some attributes, aside from the program.

        Inside, the state is that at its end. Beside its frame, what its parameters are when it begins.
        """

    @abstractmethod
    def template(self, info: ClassInfo) -> Value:
        """The object that stands for any instance of a class, its attributes as `__init__` stores them."""


class Part:
    """One kind of the interpreter's work."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.state = machine.state

    @property
    def observations(self) -> Observations:
        """Those of the root that is under way."""
        return self.state.observations

    @property
    def definitions(self) -> Definitions:
        """Those of the module that is under way."""
        return self.state.frame.definitions
