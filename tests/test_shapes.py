"""The model's shapes and element types agree with the installed torch in random programs."""

from __future__ import annotations

import os
import random
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.optional import optional
from torchlint.files.source import SourceFile
from torchlint.model.model import Model
from torchlint.model.shapes.tensor_type import TensorType
from torchlint.syntax.reading import read

torch = optional("torch")
pytestmark = pytest.mark.needs("torch")

PROGRAMS = int(os.environ.get("SHAPE_PROGRAMS", "200"))
STATEMENTS = 9
SEED = int(os.environ.get("SHAPE_SEED", "20261122"))
"""More, and others, to try what is new."""
_HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n"


@dataclass
class Generated:
    """A program: what each line binds when it is run, and the line that raises."""

    lines: list[str] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    raises: str = ""


class Generator:
    """Writes programs of operators on literal sizes, most of which fit."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def program(self, number: int) -> Generated:
        """A function, run line by line until one raises."""
        made = Generated()
        torch.manual_seed(number)
        for index in range(STATEMENTS):
            self.add(made, f"v{index}", self.expression(made) if index > 1 else self.creation())
            if made.raises:
                break
        return made

    def forward(self, number: int) -> Generated:
        """A function of one argument, each line of which can be run for a certain shape of it."""
        made = Generated()
        torch.manual_seed(number)
        sizes = [self.size() for _ in range(self.random.choice([1, 2, 3, 4, 4]))]
        self.add(made, "x", f"torch.randn({', '.join(map(str, sizes))})")
        for index in range(STATEMENTS):
            self.add(made, f"v{index}", self.expression(made))
            if made.raises:
                made.lines.pop()
                made.raises = ""
        return made

    def add(self, made: Generated, name: str, text: str) -> None:
        """Run one line more."""
        names = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                value = eval(text, names, made.values)
        except (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError) as error:
            made.raises = f"{type(error).__name__}: {error}"
            made.lines.append(f"{name} = {text}")
            return
        if isinstance(value, torch.Tensor) and value.numel() < 5000:
            made.lines.append(f"{name} = {text}")
            made.values[name] = value.detach()

    # -- expressions ----------------------------------------------------------------------------------

    def creation(self) -> str:
        sizes = ", ".join(str(self.size()) for _ in range(self.random.choice([1, 2, 2, 3, 3, 4])))
        return self.random.choice(
            [
                f"torch.randn({sizes})",
                f"torch.zeros(({sizes},))",
                f"torch.ones([{sizes}])",
                f"torch.full(({sizes},), 2)",
                f"torch.randint(0, 3, ({sizes},))",
                f"torch.randint(3, size=({sizes},))",
                f"torch.empty({sizes}, dtype=torch.float64)",
                f"torch.arange({self.size()} * 2)",
                f"torch.arange(1, {self.size() + 3}, 2)",
                f"torch.eye({self.size()})",
                f"torch.tensor([[1, 2], [3, 4], [5, {self.size()}]])",
                f"torch.randn({sizes}).float()",
            ]
        )

    def size(self) -> int:
        return self.random.choice([1, 2, 2, 3, 4, 6])

    def expression(self, made: Generated) -> str:
        if not made.values or self.random.random() < 0.1:
            return self.creation()
        name = self.random.choice(list(made.values))
        other = self.random.choice(list(made.values))
        return self.random.choice(_WAYS)(self, name, made.values[name], other, made.values[other])

    def dimension(self, value: Any) -> int:
        rank = value.dim()
        if self.random.random() < 0.05:
            return self.random.randint(-4, 4)
        return self.random.randint(-max(rank, 1), max(rank, 1) - 1)

    def factors(self, value: Any) -> str:
        """Sizes of as many elements, nearly always."""
        total, sizes = value.numel(), list[int]()
        for _ in range(self.random.randint(0, 2)):
            size = self.random.choice([item for item in (1, 2, 3, 4, 6) if total % item == 0] or [1])
            sizes.append(size)
            total //= size
        sizes.append(total if self.random.random() < 0.9 else total + 1)
        self.random.shuffle(sizes)
        if self.random.random() < 0.4:
            sizes[self.random.randrange(len(sizes))] = -1
        return ", ".join(map(str, sizes))


Way = Callable[[Generator, str, Any, str, Any], str]


def _elementwise(g: Generator, x: str, value: Any, y: str, other: Any) -> str:
    op = g.random.choice(["+", "-", "*", "/", "==", "<"])
    return g.random.choice([f"{x} {op} {y}", f"{x} {op} 2", f"{x} {op} 0.5", f"torch.add({x}, {y})", f"{x}.mul({y})"])


def _unary(g: Generator, x: str, value: Any, y: str, other: Any) -> str:
    name = g.random.choice("relu sigmoid exp abs contiguous clone detach float double long int bool".split())
    return g.random.choice(
        [f"{x}.{name}()", f"{x}.to(torch.int64)", f"F.relu({x})", f"nn.ReLU()({x})", f"{x}.to('cpu')"]
    )  # fmt: skip


def _view(g: Generator, x: str, value: Any, y: str, other: Any) -> str:
    sizes = g.factors(value)
    return g.random.choice(
        [f"{x}.view({sizes})", f"{x}.reshape({sizes})", f"{x}.view(({sizes},))", f"torch.reshape({x}, ({sizes},))",
         f"{x}.view({x}.shape[0], -1)", f"{x}.view({x}.size(0), -1)", f"{x}.reshape({x}.shape)", f"{x}.view(-1)"]
    )  # fmt: skip


def _order(g: Generator, x: str, value: Any, y: str, other: Any) -> str:
    first, second = g.dimension(value), g.dimension(value)
    order = list(range(value.dim()))
    g.random.shuffle(order)
    return g.random.choice(
        [f"{x}.transpose({first}, {second})", f"torch.transpose({x}, {first}, {second})", f"{x}.permute({order})",
         f"{x}.t()", f"{x}.T", f"{x}.mT", f"{x}.permute({', '.join(map(str, order)) or '()'})",
         f"torch.swapaxes({x}, {first}, {second})"]
    )  # fmt: skip


def _squeeze(g: Generator, x: str, value: Any, y: str, other: Any) -> str:
    dim = g.dimension(value)
    return g.random.choice(
        [f"{x}.squeeze()", f"{x}.squeeze({dim})", f"{x}.unsqueeze({dim})", f"torch.unsqueeze({x}, dim={dim})",
         f"{x}.flatten()", f"{x}.flatten(1)", f"torch.flatten({x}, {dim})", f"{x}.flatten(0, {dim})",
         f"nn.Flatten()({x})", f"{x}.expand({g.size()}, {', '.join(['-1'] * value.dim()) or '1'})",
         f"{x}.repeat({', '.join(str(g.size()) for _ in range(value.dim())) or '1'})"]
    )  # fmt: skip


def _index(g: Generator, x: str, value: Any, y: str, other: Any) -> str:
    item = g.random.choice(["0", ":, 0", "..., 0", "None", ":, None", "0:1", ":, -1, :", "-1", "..., None, :", "0, 0"])
    return f"{x}[{item}]"


def _reduce(g: Generator, x: str, value: Any, y: str, other: Any) -> str:
    name, dim = g.random.choice("sum mean amax argmax std cumsum softmax".split()), g.dimension(value)
    keep = g.random.choice(["", ", keepdim=True"]) if name not in ("cumsum", "softmax") else ""
    return g.random.choice(
        [f"{x}.{name}({dim}{keep})", f"torch.{name}({x}, dim={dim}{keep})", f"{x}.sum()", f"{x}.mean()", f"{x}.max()",
         f"{x}.max({dim})[0]", f"{x}.max({dim}).values", f"{x}.max({dim}{keep})[1]", f"torch.max({x}, {y})",
         f"{x}.mean(({dim},))"]
    )  # fmt: skip


def _product(g: Generator, x: str, value: Any, y: str, other: Any) -> str:
    last = value.shape[-1] if value.dim() else 1
    return g.random.choice(
        [f"{x} @ {y}", f"torch.matmul({x}, {y})", f"{x} @ torch.randn({last}, {g.size()})", f"{x} @ {x}.mT",
         f"torch.mm({x}, {y}.t())", f"torch.bmm({x}, {y})", f"{x}.matmul(torch.randn({last}))"]
    )  # fmt: skip


def _join(g: Generator, x: str, value: Any, y: str, other: Any) -> str:
    dim = g.dimension(value)
    return g.random.choice(
        [f"torch.cat([{x}, {y}], dim={dim})", f"torch.cat(({x}, {x}), {dim})", f"torch.stack([{x}, {x}], {dim})",
         f"torch.stack(({x}, {y}))", f"torch.zeros_like({x})", f"torch.cat([{x}, {y}])",
         f"torch.where({x} > 0, {x}, {y})",         f"{x}.masked_fill({y} > 0, 0)", f"{x}.expand_as({y})"]
    )  # fmt: skip


def _layer(g: Generator, x: str, value: Any, y: str, other: Any) -> str:
    last = value.shape[-1] if value.dim() else 1
    if g.random.random() < 0.2:
        last = g.size()
    channels = value.shape[-3] if value.dim() > 2 else g.size()
    second = value.shape[1] if value.dim() > 1 else g.size()
    k, s, p = g.random.choice([1, 2, 3]), g.random.choice([1, 2]), g.random.choice([0, 1])
    conv = f"nn.Conv2d({channels}, {g.size()}, {k}, stride={s}, padding={p})"
    return g.random.choice(
        [f"nn.Linear({last}, {g.size()})({x})", f"{conv}({x})", f"nn.Conv1d({second}, {g.size()}, {k}, {s}, {p})({x})",
         f"nn.ConvTranspose2d({channels}, {g.size()}, {k}, {s})({x})", f"nn.MaxPool2d({k})({x})",
         f"F.max_pool2d({x}, {k}, {s})", f"nn.AvgPool2d({k}, {s}, ceil_mode=True)({x})",
         f"nn.AdaptiveAvgPool2d({s})({x})", f"nn.AdaptiveAvgPool2d(({s}, {k}))({x})", f"nn.BatchNorm2d({second})({x})",
         f"nn.BatchNorm1d({second}).eval()({x})", f"nn.LayerNorm({last})({x})", f"nn.Embedding(9, {g.size()})({x})",
         f"nn.Sequential({conv}, nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear({g.size()}, 2))({x})",
         f"nn.Sequential(nn.Linear({last}, {g.size()}), nn.ReLU(), nn.Linear({g.size()}, 3))({x})",
         f"nn.LSTM({last}, {g.size()}, bidirectional=True)({x})[0]", f"nn.GRU({last}, {g.size()})({x})[0]",
         f"F.one_hot({x}.abs().long(), 9)", f"F.linear({x}, torch.randn({g.size()}, {last}))"]
    )  # fmt: skip


_WAYS: tuple[Way, ...] = (
    _elementwise, _unary, _view, _view, _order, _order, _squeeze, _squeeze, _index, _reduce, _product, _join, _layer,
    _layer,
)  # fmt: skip
_CALLS = frozenset("randn zeros ones full randint empty arange eye tensor".split())


@pytest.fixture(scope="module")
def programs() -> list[Generated]:
    generator = Generator(SEED)
    return [generator.program(number) for number in range(PROGRAMS)]


@pytest.fixture(scope="module")
def model(programs: list[Generated]) -> Model:
    functions = [f"def f{number}():\n    " + "\n    ".join(made.lines) for number, made in enumerate(programs)]
    source = SourceFile("programs.py", (_HEAD + "\n".join(functions) + "\n").encode())
    return Model(read(source), _CALLS)


def test_what_must_raise_does(programs: list[Generated], model: Model) -> None:
    raising, line = dict[int, Generated](), 1 + _HEAD.count("\n")
    for made in programs:
        line += len(made.lines)
        if made.raises:
            raising[line] = made
        line += 1
    found = {misfit.site.line: misfit for misfit in model.shapes.misfits}
    wrong = [f"{misfit.reason}: {model.tree.code(misfit.site)}" for at, misfit in found.items() if at not in raising]
    assert wrong == []
    assert len(found) > 0.8 * len(raising) > 30, [
        f"{made.lines[-1]}: {made.raises}" for at, made in raising.items() if at not in found
    ]


def test_types_are_those_of_torch(programs: list[Generated], model: Model) -> None:
    wrong, known = list[str](), 0
    for name, made, types in _typed(programs, model):
        value = made.values[name]
        fits = [type_ for type_ in types if _fits(type_, value)]
        if not fits:
            wrong.append(f"{made.lines}: {name} is {tuple(value.shape)} {value.dtype} {value.stride()}, not {types}")
        known += any(type_.rank is not None and None not in type_.sizes for type_ in fits)
    assert wrong == []
    assert known > 0.8 * sum(len(made.values) for made in programs)


def test_forward_of_an_unknown_input() -> None:
    """A function that runs for one shape is never reported to raise for all, and its results agree with torch."""
    generator = Generator(SEED + 1)
    made = [item for number in range(PROGRAMS) if (item := generator.forward(number)).values]
    lines = [_HEAD]
    for number, program in enumerate(made):
        lines.append(f"class M{number}(nn.Module):\n    def forward(self, x):\n        x = x.detach()")
        lines += [f"        {line}" for line in program.lines[1:]]
        lines.append(f"        return {list(program.values)[-1]}")
    lines += [f"out{number} = M{number}()({program.lines[0][4:]})" for number, program in enumerate(made)]
    model = Model(read(SourceFile("modules.py", "\n".join(lines).encode())), _CALLS | {"forward", "detach"})
    assert [f"{misfit.reason}: {model.tree.code(misfit.site)}" for misfit in model.shapes.misfits] == []
    names = model.program.traces[0].frame.locals
    wrong, known = list[str](), 0
    for number, program in enumerate(made):
        value, types = list(program.values.values())[-1], model.shapes.types_of(names[f"out{number}"])
        known += any(type_.rank is not None for type_ in types)
        if not any(_fits(type_, value) for type_ in types):
            wrong.append(f"{program.lines}: {tuple(value.shape)} {value.dtype}, not {types}")
    assert wrong == []
    assert known > 0.3 * len(made)


def _typed(programs: list[Generated], model: Model) -> Iterator[tuple[str, Generated, list[TensorType]]]:
    for trace in model.program.traces:
        if trace.root is not None:
            made = programs[int(trace.root.name[1:])]
            for name in made.values.keys() & trace.frame.locals.keys():
                yield name, made, model.shapes.types_of(trace.frame.locals[name])


def _fits(type_: TensorType, value: Any) -> bool:
    """Whether what is known of a type is so of a tensor."""
    actual = tuple(value.shape)
    count = len(type_.sizes)
    if len(actual) < count or (not type_.is_open and len(actual) != count):
        return False
    numbers = [size.number if size is not None else None for size in type_.sizes]
    same = all(number in (None, size) for number, size in zip(numbers, actual[len(actual) - count :], strict=True))
    dtype = str(value.dtype).removeprefix("torch.")
    is_type = type_.dtype in (None, dtype) or (type_.dtype == "float" and value.is_floating_point())
    return same and is_type and _same_strides(type_, value)


def _same_strides(type_: TensorType, value: Any) -> bool:
    """Whether the strides are those of a tensor, but for dimensions of size 1, whose strides mean nothing."""
    if type_.strides is None:
        return True
    steps = zip(type_.strides, value.stride(), value.shape, strict=True)
    return all(left == right for left, right, size in steps if size > 1)
