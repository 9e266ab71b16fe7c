"""Fixes remove their defects: programs run with and without all fixes, and their state is compared.

Each file of `repaired` holds programs with one kind of defect. Before the fixes a program has it, and after them it has
not, on any of the paths that it takes. Where the line of its `def` says `# no fix`, there is none.

The fixtures of rules are run in the same way, as far as their functions take what can be made here.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import importlib
import importlib.util
import inspect
import itertools
import random
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

from torchlint import SourceFile, testing
from torchlint.engine import registry
from torchlint.engine.fixer import fix
from torchlint.engine.registry import Selection

pytestmark = [pytest.mark.needs("torch"), pytest.mark.halved]
if importlib.util.find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)
torch = importlib.import_module("torch")

from tests.verify.repairs import PROPERTIES, functions, problems, text_of  # noqa: E402

PROGRAMS = Path(__file__).parent / "repaired"
FIXTURES = Path(__file__).parent.parent.parent / "fixtures"
BATCHES = 9
BAD = 4
"""The number of the batch that is refused."""


@pytest.fixture(scope="module", autouse=True)
def unfrozen() -> Iterator[None]:
    """Give the garbage collector back what counting graphs has kept from it."""
    yield
    gc.unfreeze()


# -- programs -----------------------------------------------------------------------------------------------


def _batches(bad: Callable[[Any], None] = lambda x: None) -> list[tuple[Any, Any]]:
    found = [(torch.randn(4, 3), torch.randn(4, 1)) for _ in range(BATCHES)]
    bad(found[BAD][0])
    return found


def _network(middle: Callable[[], Any] = torch.nn.Identity) -> Any:
    return torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), middle(), torch.nn.Linear(8, 1))


class _Fragile(torch.nn.Module):  # type: ignore[misc,name-defined,unused-ignore]
    """Raises in the middle of one backward pass, when the layers behind it have gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.passes = 0

    def forward(self, x: Any) -> Any:
        x.register_hook(self._count)
        return x.clone()

    def _count(self, gradient: Any) -> None:
        self.passes += 1
        if self.passes == BAD:
            raise RuntimeError("out of memory")


SUPPLIES: dict[str, Callable[[], Any]] = {
    "model": _network,
    "fragile": lambda: _network(_Fragile),
    "batches": _batches,
    "held_out": _batches,
    "loader": lambda: _batches(lambda x: x.fill_(float("nan"))),
    "accepts": lambda: lambda model: random.random() < 0.5,
    "penalty": lambda: lambda model: sum(p.square().sum() for p in model.parameters()),
    "smooth": lambda: True,
}


@cache
def _versions(name: str) -> tuple[str, str]:
    """A file of programs as it is, and with all fixes; it stands in no folder of tests, which rules are told of."""
    source = SourceFile(f"{name}.py", (PROGRAMS / f"{name}.py").read_bytes())
    return source.text, fix(source, Selection(registry.rules()), unsafe=True).source.text


@cache
def _functions(name: str, fixed: bool) -> dict[str, FunctionType]:
    return functions(_versions(name)[fixed], name)


def _cases() -> Iterator[Any]:
    for name in PROPERTIES:
        for function, item in _functions(name, False).items():
            is_called = len(re.findall(rf"\b{function}\(", _versions(name)[0])) > 1
            if not is_called and set(inspect.signature(item).parameters) <= SUPPLIES.keys():
                yield pytest.param(name, function, id=f"{name}-{function}")


@pytest.mark.parametrize(("name", "function"), list(_cases()))
def test_a_fix_leaves_no_defect(name: str, function: str) -> None:
    def give() -> dict[str, Any]:
        return {item: SUPPLIES[item]() for item in inspect.signature(program).parameters}

    before, after = (text_of(function, text) for text in _versions(name))
    program = _functions(name, False)[function]
    assert problems(name, program, give)[0], "the program has no defect as it is"
    if "# no fix" in before:
        assert after == before
        return
    program = _functions(name, True)[function]
    left, error = problems(name, program, give)
    assert (left, error) == ([], None), after


# -- fixtures -----------------------------------------------------------------------------------------------

KINDS = {
    "missing_zero_grad": ("gradients", 25),
    "training_in_eval_mode": ("modes", 5),
    "undetached_accumulation": ("graphs", 10),
    "scheduler_before_optimizer": ("schedules", 4),
    "lopsided_accumulation": ("windows", 6),
    "inplace_on_saved_tensor": ("claims", 25),
    "inplace_on_leaf": ("claims", 6),
    "nonscalar_backward": ("claims", 1),
}
"""The kind of defect of a rule, and how many functions of its fixtures can be run at least."""
RAISING = ("inplace operation", "in-place operation", "a second time", "scalar outputs", "does not require grad")
"""Parts of PyTorch's messages for the defects that raise."""
WIDTHS = (4, 8, 10, 3)
STEPPING = frozenset({"optimizer", "opt", "optim", "sgd"})
NUMBERS = {
    "lr": 0.01, "rate": 0.01, "steps": 5, "max_steps": 5, "epochs": 2, "n": 4, "wide": False, "smooth": 0.1,
    "scale": 2.0, "every": 3, "k": 3, "accum": 3, "accumulation_steps": 3, "learns": True,
}  # fmt: skip
NETWORKS = frozenset("model net network layer encoder decoder policy cell first second".split())
TENSORS = frozenset("x inputs images residual noise z state".split())
LOADERS = frozenset("loader train_loader batches held_out valid_loader test_loader other pairs data".split())


class _Given:
    """Makes the arguments of a function by their names, for data of one width: classes, or numbers."""

    def __init__(self, width: int, *, classes: bool) -> None:
        self.width, self.classes = width, classes
        self.networks: list[Any] = []

    def arguments(self, names: Iterable[str]) -> dict[str, Any]:
        """Raises `KeyError` for a name that is not known."""
        made = {name: self._made(name) for name in names if name not in STEPPING}
        weights = [weight for network in self.networks for weight in network.parameters()]
        return made | {name: torch.optim.SGD(weights, lr=0.01) for name in names if name in STEPPING}

    def _made(self, name: str) -> Any:
        if name in NETWORKS:
            self.networks.append(torch.nn.Sequential(torch.nn.Linear(self.width, self.width), torch.nn.Tanh()))
            return self.networks[-1]
        if name in LOADERS:
            return [(self._input(), self._target()) for _ in range(BATCHES)]
        if name in TENSORS:
            return self._input()
        made: dict[str, Callable[[], Any]] = {
            "y": self._target,
            "target": self._target,
            "targets": self._target,
            "labels": self._target,
            "mask": lambda: self._input() > 0,
            "criterion": lambda: torch.nn.functional.cross_entropy if self.classes else torch.nn.functional.mse_loss,
            "next_batch": lambda: lambda: (self._input(), self._target()),
            **{key: partial(_same, value) for key, value in NUMBERS.items()},
        }
        return made[name]()

    def _input(self) -> Any:
        return torch.randn(4, self.width)

    def _target(self) -> Any:
        return torch.randint(0, 2, (4,)) if self.classes else torch.randn(4, self.width)


def _same(value: Any) -> Any:
    return value


class _Anything:
    """A stand-in for names of a package that is not installed: a call returns its first argument, as `tqdm` does."""

    def __new__(cls, *given: Any, **named: Any) -> Any:
        return given[0] if cls is _Anything and given else super().__new__(cls)


class _Absent(ModuleType):
    """A package that is not installed."""

    __path__: list[str] = []  # noqa: RUF012

    def __getattr__(self, name: str) -> Any:
        return _Anything


def _absent(text: str) -> dict[str, ModuleType]:
    """The modules that a file imports and that are not there."""
    found: dict[str, ModuleType] = {}
    for node in ast.walk(ast.parse(text)):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for name in filter(None, names):
            if importlib.util.find_spec(name.partition(".")[0]) is None:
                parts = list(itertools.accumulate(name.split("."), "{}.{}".format))
                found.update({part: _Absent(part) for part in parts})
    return found


@cache
def _fixed_fixtures() -> dict[str, list[tuple[str, str, str]]]:
    """The name of each fixture with fixes, its text, and the fixed text: by rule, before any fixture runs."""
    found: dict[str, list[tuple[str, str, str]]] = {rule: [] for rule in KINDS}
    for fixture in testing.fixtures(FIXTURES):
        if fixture.path.parent.name in found and (fixed := fixture.fixed()).applied:
            found[fixture.path.parent.name].append((fixture.shown, fixture.text, fixed.source.text))
    return found


@contextlib.contextmanager
def _modules(absent: dict[str, ModuleType]) -> Iterator[None]:
    """Install modules. Those that a fixture imports stay: parts of torch cannot be imported twice."""
    sys.modules.update(absent)
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]


def _loaded(file: str, text: str) -> dict[str, FunctionType]:
    """The functions of a fixture, without the statements that run when it is imported."""
    found: dict[str, Any] = {}
    with _modules(_absent(text)):
        for node in ast.parse(text).body:
            if isinstance(node, (ast.Import, ast.ImportFrom, ast.Try, ast.FunctionDef, ast.ClassDef, ast.Assign)):
                with contextlib.suppress(Exception, SystemExit):  # what a fixture does when it is imported may raise
                    exec(compile(ast.Module([node], []), file, "exec"), found)
    return {name: item for name, item in found.items() if isinstance(item, FunctionType) and f"def {name}(" in text}


def _left(kind: str, before: Callable[..., Any], after: Callable[..., Any]) -> list[str] | None:
    """The problems of a function after its fixes; None if the original does not run, or has no defect."""
    names = inspect.signature(before).parameters
    for width, classes in itertools.product(WIDTHS, (True, False)):

        def give(width: int = width, classes: bool = classes) -> dict[str, Any]:
            return _Given(width, classes=classes).arguments(names)

        try:
            found, error = problems(kind, before, give)
        except KeyError:
            return None
        if found and (error is None if kind != "claims" else any(text in str(error) for text in RAISING)):
            left, error = problems(kind, after, give)
            return left + ([repr(error)] if error is not None and kind != "claims" else [])
    return None


@pytest.mark.parametrize("rule", KINDS)
def test_fixed_fixtures_train_right(rule: str) -> None:
    kind, least = KINDS[rule]
    left: dict[str, list[str]] = {}
    for shown, old, new in _fixed_fixtures()[rule]:
        before, after = _loaded(shown, old), _loaded(shown, new)
        for name in before.keys() & after.keys():
            if text_of(name, old) != text_of(name, new):
                found = _left(kind, before[name], after[name])
                if found is not None:
                    left[f"{shown}: {name}"] = found
    assert not [item for item in left.items() if item[1]]
    assert len(left) >= least, sorted(left)
