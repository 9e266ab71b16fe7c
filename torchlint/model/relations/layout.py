"""The layout of tensors: the batch whose samples are in the first dimension, and the padding of batches."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from torchlint.lazy_pattern import LazyPattern
from torchlint.model.events import Compute
from torchlint.model.module_values import is_as_made
from torchlint.model.program import Program
from torchlint.model.relations._copied_labels import copies
from torchlint.model.relations._padding import PAD, REORDERED, Calls, Padding, PaddingSearch, given_in
from torchlint.model.relations.answer import Answer as Text
from torchlint.model.utilities import DataLoader
from torchlint.model.values import (
    Answer,
    Attribute,
    Component,
    Container,
    Element,
    Iteration,
    Module,
    ModuleOutput,
    Parameter,
    Phi,
    Plain,
    Tensor,
    Unknown,
    Value,
    is_none,
    owner_label,
    resolved,
)
from torchlint.pytorch import operators
from torchlint.pytorch import shapes as table
from torchlint.syntax.python_ast import Site

_LOADER = LazyPattern(r"loader|batch", re.IGNORECASE)
_MOST_STEPS = 60
_MOST_CALLS = 6
_MOST_INSIDE = 400
_ELEMENTWISE = frozenset(
    "to float double half bfloat16 long int bool cuda cpu contiguous clone detach type relu gelu elu silu leaky_relu "
    "tanh sigmoid softmax log_softmax dropout exp log abs sqrt pow square round clamp layer_norm batch_norm normalize "
    "linear conv1d conv2d conv3d max_pool2d avg_pool2d adaptive_avg_pool2d embedding masked_fill".split()
)
"""Operators that leave samples in the first dimension, for any other arguments."""
_ARITHMETIC = frozenset({operators.ADD, operators.SUB, operators.MUL, operators.DIV})
_OVER_DIMENSION = frozenset(
    "mean sum argmax argmin max amax flatten squeeze unsqueeze log_softmax softmax cumsum".split()
)
"""Operators with a dimension; they leave samples in place if it is not the first."""
_VIEWS = frozenset({"view", "reshape"})
_LAYERS = frozenset(
    "linear bilinear conv conv_transpose pool adaptive_pool batch_norm layer_norm group_norm embedding".split()
) | {table.SAME, table.POOL}
_OTHER_BATCHES = ("collate_fn", "batch_sampler", "sampler")


class FirstRow(NamedTuple):
    """The element at a literal index of a tensor with samples in its first dimension."""

    row: Value
    output: Tensor
    part: Value
    """The part of a batch that contains these samples."""


class Layout:
    """Answers about the dimensions of tensors."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def copied_labels(self) -> Iterator[tuple[Site, Site]]:
        """The labels that are a copy of padded tokens, each with the call of the tokenizer."""
        return copies(self._program.definitions)

    def part_of(self, value: Value) -> Value | None:
        """The part of a batch whose samples are in the first dimension of a value, in order; None if unknown."""
        return _Search(self._program).of(value, ())

    def batch_of(self, part: Value) -> Value | None:
        """The batch that contains a value: the iteration of a loop, or a parameter."""
        part = resolved(part)
        if isinstance(part, (Element, Attribute)) and part.parents:
            owner = resolved(part.parents[0])
            if isinstance(owner, (Iteration, Parameter)):
                return owner
            if isinstance(owner, Element) and owner.parents and isinstance(resolved(owner.parents[0]), Iteration):
                return owner  # `for i, (x, y) in enumerate(loader)`
        return None

    def holds_several(self, part: Value) -> Answer:
        """Whether the batch of a part surely has several samples, according to its loader.

        NO if it may be no batch at all: the loop iterates over something that is not named like a loader.
        """
        batch = self.batch_of(part)
        found = list(_loaders(batch)) if batch is not None else []
        if len(found) != 1:
            is_named = isinstance(batch, Iteration) and bool(_LOADER.search(owner_label(batch.parents[0])))
            return Answer.UNKNOWN if is_named else Answer.NO
        size = found[0].part("batch_size")
        number = resolved(size) if size is not None else None
        given = [item for name in _OTHER_BATCHES[:2] if (item := found[0].part(name)) is not None and not is_none(item)]
        if number is None or (isinstance(number, Plain) and number.constant in (None, 1)):
            return Answer.UNKNOWN if given else Answer.NO
        is_many = isinstance(number, Plain) and isinstance(number.constant, int) and number.constant > 1
        return Answer.YES if is_many and not given else Answer.UNKNOWN

    def first_row(self, value: Value) -> FirstRow | None:
        """The row that a value is, for `output[0]` of a module that returns one tensor."""
        value = resolved(value)
        if not isinstance(value, Tensor) or not value.parents or value.site is None:
            return None
        node = self._program.tree.node(value.site)
        owner = resolved(value.parents[0])
        is_part = isinstance(value, Component) or value.op == operators.GETITEM
        if not is_part or not isinstance(owner, Tensor) or not _is_index(node) or not _is_output(owner):
            return None
        part = self.part_of(owner)
        return FirstRow(value, owner, part) if part is not None else None

    def computed(self) -> Iterator[tuple[Compute, Tensor, Calls]]:
        """The tensors computed for an event, also in modules of the program, each once."""
        seen = set[tuple[Value, Value | None]]()
        for event in (event for trace in self._program.traces for event in trace.of(Compute)):
            for value, calls in _inside(self._program, event.value):
                if (value, event.value if calls else None) not in seen:
                    seen.add((value, event.value if calls else None))
                    yield event, value, calls

    def results(self) -> Iterator[Tensor]:
        """The tensors that the program computes, also those that its functions only return."""
        yield from (value for _, value, _ in self.computed())
        for value in (resolved(value) for trace in self._program.traces for value in trace.frame.returns):
            parts = value.parents if isinstance(value, Container) else (value,)
            yield from (part for part in map(resolved, parts) if isinstance(part, Tensor))

    def last_steps(self) -> Iterator[tuple[Tensor, Padding]]:
        """The places that take the last step of each sequence, `x[:, -1]`, of a batch with padding at its end."""
        seen = set[Value]()
        for _, value, calls in self.computed():
            if value in seen or value.op != operators.GETITEM or value.site is None:
                continue
            index = _index_of_last(self._program.tree.node(value.site))
            padding = PaddingSearch(self._program).of(value.parents[0], calls) if index is not None else None
            if padding is not None and padding.batch_first == (index == 1) and _is_computed(value.parents[0]):
                seen.add(value)
                yield value, padding

    def padding_of(self, target: Value, calls: Calls = ()) -> Padding | None:
        """The padding in a tensor, whatever steps are dropped from it and wherever they are."""
        return PaddingSearch(self._program, REORDERED).of(target, calls)

    def is_fed(self, value: Value, padding: Padding, calls: Calls = ()) -> bool:
        """Whether a value comes from a module with the same padded input, such as logits for the next tokens."""
        for _ in range(_MOST_CALLS):
            value = resolved(value)
            if isinstance(value, ModuleOutput):
                return any(self.padding_of(item, calls) == padding for item in value.parents[1:])
            if not isinstance(value, Tensor) or not value.parents:
                return False
            value = value.parents[0]
        return False

    # -- in words ---------------------------------------------------------------------------------------

    def answers(self) -> Iterator[Text]:
        """Samples taken from the output of a module, and last steps of padded batches."""
        for site, owner in self._program.observations.indexed:
            part = self.part_of(owner) if _is_output(owner) else None
            if part is not None and part.label and not part.label.startswith("["):
                yield Text(site, f"is one sample of `{part.label}`")
        if PAD.encode() in self._program.tree.source.code:
            for value, padding in self.last_steps():
                if value.site is not None:
                    line = padding.site.line
                    yield Text(value.site, f"is the last step of a batch that line {line} pads at its end")


class _Search:
    """One query, with a limited number of steps."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._steps = 0

    def of(self, value: Value, calls: tuple[Mapping[str, Value], ...]) -> Value | None:
        self._steps += 1
        value = resolved(value)
        if self._steps > _MOST_STEPS:
            return None
        if isinstance(value, Parameter) and calls and value.label in calls[-1]:
            return self.of(calls[-1][value.label], calls[:-1])
        if isinstance(value, (Element, Attribute, Parameter)):
            return value
        if isinstance(value, Phi):
            found = {self.of(item, calls) for item in value.parents if item is not value}
            return found.pop() if len(found) == 1 else None
        return self._of_tensor(value, calls) if isinstance(value, Tensor) and value.parents else None

    def _of_tensor(self, value: Tensor, calls: tuple[Mapping[str, Value], ...]) -> Value | None:
        if isinstance(value, ModuleOutput):
            return self._of_output(value, calls)
        if isinstance(value, Component):
            return self._of_recurrent(value, calls)
        operand = value.parents[0]
        if value.op in _ARITHMETIC:
            return next((part for item in value.parents if (part := self.of(item, calls)) is not None), None)
        if value.op in _ELEMENTWISE or (value.op == operators.GETITEM and self._keeps_rows(value)):
            return self.of(operand, calls)
        if value.op in _OVER_DIMENSION and self._spares_first(value):
            return self.of(operand, calls)
        return self.of(operand, calls) if value.op in _VIEWS and self._begins_with_rows(value) else None

    def _of_output(self, value: ModuleOutput, calls: tuple[Mapping[str, Value], ...]) -> Value | None:
        module = resolved(value.parents[0])
        if value.body is not None:
            is_inside = len(calls) < _MOST_CALLS
            return self.of(value.body, (*calls, value.given)) if is_inside and is_as_made(module) else None
        if len(value.parents) < 2 or not self._is_plain(module, 0):
            return None
        return self.of(value.parents[1], calls)

    def _is_plain(self, module: Value, depth: int) -> bool:
        """Whether a module is a layer that leaves samples in the first dimension, or a chain of such layers."""
        module = resolved(module)
        if not isinstance(module, Module) or module.info is not None or depth > 3 or not is_as_made(module):
            return False
        name = module.name.removeprefix("torch.nn.")
        if name == "Sequential":
            parts = [resolved(item) for item in module.parents]
            parts = [item for part in parts for item in (part.elements() if isinstance(part, Container) else [part])]
            return bool(parts) and all(self._is_plain(item, depth + 1) for item in parts)
        layer = table.LAYERS.get(name)
        return name == "Flatten" or (layer is not None and layer.kind in _LAYERS)

    def _of_recurrent(self, value: Component, calls: tuple[Mapping[str, Value], ...]) -> Value | None:
        """The output of a recurrent layer with samples first."""
        whole = resolved(value.parents[0])
        if not isinstance(whole, ModuleOutput) or len(whole.parents) < 2 or whole.key_of(value) != 0:
            return None
        module = resolved(whole.parents[0])
        made = self._program.observations.calls.get(module)
        layer = table.LAYERS.get(module.name.removeprefix("torch.nn.")) if isinstance(module, Module) else None
        flag = resolved(given) if made is not None and (given := made[1].keywords.get("batch_first")) else None
        is_first = isinstance(flag, Plain) and flag.constant is True
        is_recurrent = layer is not None and layer.kind == table.RECURRENT
        return self.of(whole.parents[1], calls) if is_first and is_recurrent else None

    def _keeps_rows(self, value: Tensor) -> bool:
        """`x[:, -1]`."""
        node = self._program.tree.node(value.site) if value.site is not None else None
        parts = node.slice.elts if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple) else []
        first = parts[0] if parts else None
        return isinstance(first, ast.Slice) and not (first.lower or first.upper or first.step)

    def _spares_first(self, value: Tensor) -> bool:
        """Whether an operator works on dimensions other than the first: `x.mean(1)`, `x.flatten(1)`."""
        known = self._program.observations.calls.get(value)
        if known is None:
            return False
        _, arguments, receiver = known
        others = [*arguments.positional[0 if receiver is not None else 1 :], *arguments.keywords.values()]
        numbers = [item.constant for item in map(resolved, others) if isinstance(item, Plain)]
        counts = [number for number in numbers if type(number) is int]
        return bool(counts) and all(number != 0 for number in counts) and len(numbers) == len(others)

    def _begins_with_rows(self, value: Tensor) -> bool:
        """`x.view(x.size(0), -1)`."""
        known = self._program.observations.calls.get(value)
        sizes = known[1].positional[0 if known[2] is not None else 1 :] if known is not None else []
        if not sizes:
            return False
        number = self._program.observations.numbers.get(resolved(sizes[0]))
        inner = number[1][0] if number is not None and number[1] else None
        shape = self._program.observations.numbers.get(resolved(inner)) if inner is not None else None
        return number is not None and ((number[2] == 0 and shape is not None) or number[0] in ("len", "size"))


def _inside(program: Program, value: Tensor) -> Iterator[tuple[Tensor, Calls]]:
    """A tensor and its inputs, also inside modules of the program."""
    stack: list[tuple[Value, Calls]] = [(value, ())]
    seen = set[Value]()
    while stack and len(seen) < _MOST_INSIDE:
        item, calls = stack.pop()
        item = resolved(item)
        if item in seen:
            continue
        seen.add(item)
        if isinstance(item, Tensor):
            yield item, calls
            if isinstance(item, ModuleOutput) and item.body is not None and len(calls) < _MOST_CALLS:
                stack.append((item.body, (*calls, given_in(program, item))))
        if isinstance(item, (Tensor, Phi, Container)):
            stack += [(part, calls) for part in item.parents]


def _is_computed(value: Value) -> bool:
    """Whether a module contributes to a value."""
    for _ in range(8):
        value = resolved(value)
        if isinstance(value, (ModuleOutput, Component)):
            return True
        if not isinstance(value, Tensor) or not value.parents:
            return False
        value = value.parents[0]
    return False


def _index_of_last(node: ast.AST) -> int | None:
    """The dimension whose last element is taken: 1 for `x[:, -1]`, 0 for `x[-1]`."""
    parts = node.slice.elts if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple) else []
    parts = [node.slice] if isinstance(node, ast.Subscript) and not parts else parts
    if not parts or not all(isinstance(item, (ast.Slice, ast.UnaryOp)) for item in parts):
        return None
    if any(isinstance(item, ast.Slice) and (item.lower or item.upper or item.step) for item in parts):
        return None
    last = [index for index, item in enumerate(parts) if ast.unparse(item) == "-1"]
    is_first = len(last) == 1 and last[0] == min(len(parts) - 1, 1)
    return last[0] if is_first else None


def _is_output(value: Tensor) -> bool:
    """Whether a module of the program, or a layer, produced a value: its output, or a value computed from it."""
    return isinstance(value, ModuleOutput) and not isinstance(value, Component)


def _is_index(node: ast.AST) -> bool:
    """`x[0]`, `x[-1]`."""
    index = node.slice if isinstance(node, ast.Subscript) else None
    index = index.operand if isinstance(index, ast.UnaryOp) else index
    return isinstance(index, ast.Constant) and type(index.value) is int


def _loaders(batch: Value) -> Iterator[DataLoader]:
    """The possible loaders of a batch."""
    stack: list[Value] = [batch]
    for _ in range(6):
        if not stack:
            return
        value = resolved(stack.pop())
        if isinstance(value, DataLoader):
            yield value
        elif isinstance(value, (Element, Iteration, Unknown, Container)):
            stack += value.elements() if isinstance(value, Container) else value.parents[:1]
