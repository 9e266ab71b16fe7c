"""Host reads of tensors, which wait for a GPU, and expressions that certainly name the CPU."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from torchlint.lazy_pattern import LazyPattern
from torchlint.model.definitions import Definitions
from torchlint.model.events import Loop
from torchlint.model.lineage import attached
from torchlint.model.module_values import is_module
from torchlint.model.values import (
    Answer,
    CallResult,
    Gradient,
    ModuleOutput,
    Phi,
    Tensor,
    Unknown,
    Value,
    is_none,
    resolved,
)
from torchlint.pytorch import operators
from torchlint.syntax.python_ast import COMPREHENSIONS, LOOPS, SCOPES, Site, arguments, dotted, end_of, names_read

if TYPE_CHECKING:
    from torchlint.model.model import Model

_READING = frozenset({"item", "tolist", "float"})
"""Methods, and Python's own `float`, that return a number. `numpy` raises for a tensor on a GPU."""
_ON_HOST = frozenset({"cpu", "numpy"})
_REDUCING = frozenset("norm sum mean max min amax std var any all dot".split())
_CONDITIONAL = (ast.If, ast.IfExp, ast.BoolOp, ast.Match, ast.ExceptHandler)
_GPU = LazyPattern(r"(cuda|mps|xpu|npu|hpu|gpu)(:\d*)?")
_DEVICE = LazyPattern(r"device|rank|gpu|cuda", re.IGNORECASE)
_SETTINGS = LazyPattern(r"self|args|opts?|cfg|conf|config|params|hparams|accelerator|fabric|FLAGS", re.IGNORECASE)
_MOVING_PACKAGES = frozenset({"accelerate", "lightning", "pytorch_lightning", "deepspeed"})


class HostRead(NamedTuple):
    """A host read of a tensor: its place, its value, and its code."""

    node: ast.Call
    values: tuple[Value, ...]
    tensor: ast.expr

    @property
    def start(self) -> tuple[int, int]:
        """The line and column of the read."""
        return self.node.lineno, self.node.col_offset

    @property
    def origins(self) -> set[Value]:
        """The read values, without `detach` and `data`, which copy nothing."""
        return {attached(value) for value in self.values}

    @property
    def reads_number(self) -> bool:
        """Whether it certainly reads a single number, by the call or by its value."""
        single = not isinstance(self.node.func, ast.Attribute) or self.node.func.attr == "item"
        return single or all(isinstance(value, Tensor) and value.op in _REDUCING for value in self.values)

    def is_made_in(self, loop: Site) -> bool:
        """Whether each iteration of a loop creates the read value."""
        return all(any(isinstance(item, Loop) and item.site == loop for item in value.loops) for value in self.values)


class HostReads:
    """The reads of a file that wait for a GPU."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._tree = model.tree
        self._answers: dict[Value, Answer] = {}

    @cached_property
    def reads(self) -> list[HostRead]:
        """The reads in the order of evaluation."""
        found: dict[ast.Call, list[Value]] = {}
        for site, value in self._read():
            node = self._tree.own_node(site)
            if isinstance(node, ast.Call):
                found.setdefault(node, []).append(resolved(value))
        reads = [HostRead(node, tuple(read), _operand(node)) for node, read in found.items()]
        sure = [read for read in reads if all(self.is_on_gpu(value) is Answer.YES for value in read.values)]
        return sorted(sure, key=lambda read: end_of(read.node))

    def _read(self) -> Iterator[tuple[Site | None, Value]]:
        observations = self._model.program.observations
        for number, (how, operands, _) in observations.numbers.items():
            if how in _READING and operands:
                yield number.site, operands[0]
        for value, (name, _, receiver) in observations.calls.items():
            if name == "cpu" and receiver is not None:
                yield value.site, receiver

    def is_on_gpu(self, value: Value) -> Answer:
        """Whether a value is a tensor that a model or a backward computed, on the GPU if the models are there."""
        value = resolved(value)
        if value not in self._answers:
            self._answers[value] = Answer.UNKNOWN  # around a loop: the other inputs decide
            self._answers[value] = self._place(value)
        return self._answers[value]

    def _place(self, value: Value) -> Answer:
        if isinstance(value, Phi):
            answers = {self.is_on_gpu(item) for item in value.parents if not is_none(item)}
            return answers.pop() if len(answers) == 1 else Answer.UNKNOWN
        if not isinstance(value, (Tensor, Unknown)):
            return Answer.UNKNOWN
        if isinstance(value, Tensor) and (value.op in _ON_HOST or self._moves_to_host(value)):
            return Answer.NO
        if isinstance(value, Gradient):
            return Answer.YES
        inside = {self.is_on_gpu(item) for item in value.parents}
        if Answer.NO in inside:
            return Answer.NO
        is_made = _is_output(value) or (isinstance(value, Tensor) and Answer.YES in inside)
        in_graph = value in self._model.tracking.backpropagated or self._model.tracking.tracked(value) is Answer.YES
        return Answer.YES if is_made or in_graph else Answer.UNKNOWN

    def _moves_to_host(self, value: Tensor) -> bool:
        """`x.to("cpu")`, `x.to(cpu_device)`, `x.to(torch.device("cpu"))`."""
        node = self._tree.node(value.site)
        if value.op != operators.TO or not isinstance(node, ast.Call):
            return False
        return any("cpu" in ast.unparse(argument).lower() for argument in arguments(node))

    # -- conditions -----------------------------------------------------------------------------------

    def happens_always(self, node: ast.AST, loop: ast.AST, about: Collection[str] = ()) -> bool:
        """Whether each iteration of a loop evaluates a node once; conditions `about` only these names do not count."""
        for parent in self._tree.ancestors(node):
            if parent is loop:
                return not isinstance(loop, (ast.For, ast.AsyncFor)) or node not in (loop.target, loop.iter)
            if isinstance(parent, (*SCOPES, *LOOPS, *COMPREHENSIONS, ast.comprehension)):
                return False
            if isinstance(parent, _CONDITIONAL) and not self._is_evaluated(node, parent, about):
                return False
            node = parent
        return False

    def _is_evaluated(self, node: ast.AST, parent: ast.AST, about: Collection[str]) -> bool:
        """Whether a part of a condition is always evaluated, or depends only on these names."""
        if isinstance(parent, ast.BoolOp):
            return node is parent.values[0]
        if not isinstance(parent, (ast.If, ast.IfExp)):
            return False
        return node is parent.test or self.is_about(parent.test, about)

    def is_about(self, test: ast.AST, names: Collection[str]) -> bool:
        """Whether a condition depends on these names, and nothing else of the program."""
        read = {name.partition(".")[0] for name in names_read(test)}
        read -= self._model.definitions.imports.keys() | {"isinstance", "hasattr", "len", "any"}
        return bool(read) and read <= set(names)


def _operand(node: ast.Call) -> ast.expr:
    return node.func.value if isinstance(node.func, ast.Attribute) else node.args[0]


def _is_output(value: Tensor | Unknown) -> bool:
    """Whether a value certainly is a module's output, also with gradients off."""
    if isinstance(value, Tensor):
        return isinstance(value, ModuleOutput)
    return isinstance(value, CallResult) and value.callee is not None and is_module(value.callee) is Answer.YES


# -- devices --------------------------------------------------------------------------------------------


def leaves_host(definitions: Definitions) -> bool:
    """Whether any code of a file moves something to a GPU, or lets a framework do so."""
    imported = {name.partition(".")[0] for name in definitions.imports.values()}
    if not imported.isdisjoint(_MOVING_PACKAGES):
        return True
    if any(
        isinstance(text.value, str) and _GPU.fullmatch(text.value) for text in definitions.tree.of_type(ast.Constant)
    ):
        return True
    calls: Iterable[ast.Call] = definitions.tree.of_type(ast.Call)
    return any(_moves_to_gpu(call, definitions) for call in calls)


def _moves_to_gpu(call: ast.Call, definitions: Definitions) -> bool:
    if not isinstance(call.func, ast.Attribute):
        return False
    if call.func.attr in ("cuda", "set_device"):
        return True
    return call.func.attr == "to" and any(_may_be_gpu(item, definitions) for item in arguments(call))


def _may_be_gpu(node: ast.expr, definitions: Definitions) -> bool:
    """Whether an argument is a device that a setting decides."""
    owner, _, name = dotted(node).rpartition(".")
    if not name or not _DEVICE.search(name) or (owner and not _SETTINGS.fullmatch(owner)):
        return False
    return not is_host(node, definitions)


def is_host(node: ast.expr, definitions: Definitions) -> bool:
    """`"cpu"`, `torch.device("cpu")`, or a name that has no other value."""
    if _is_written_host(node):
        return True
    name = dotted(node)
    statements = definitions.tree.of_type(ast.Assign) if name else ()
    assigned = [item.value for item in statements if name in map(dotted, item.targets)]
    return bool(assigned) and all(map(_is_written_host, assigned))


def _is_written_host(node: ast.expr) -> bool:
    if isinstance(node, ast.Call) and dotted(node.func).rpartition(".")[2] == "device" and node.args:
        node = node.args[0]
    return isinstance(node, ast.Constant) and node.value == "cpu"
