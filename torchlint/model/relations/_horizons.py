"""Horizons of schedules: the number of epochs, batches or optimizer steps after which they end, as written."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple

from torchlint.index import FileIndex
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.definitions import all_parameters
from torchlint.model.events import Loop
from torchlint.model.program import Program
from torchlint.model.queries import given
from torchlint.model.queries.default_numbers import default_number
from torchlint.model.queries.names import function as function_of
from torchlint.model.relations._scales import scale_length
from torchlint.model.values import Value
from torchlint.pytorch import naming
from torchlint.syntax.python_ast import FUNCTIONS, called_name, dotted, walk

_DEPTH = 6
"""Maximum number of names followed from one to the next."""
_WHERE = {
    "StepLR": ("step_size", 1), "MultiStepLR": ("milestones", 1), "CosineAnnealingLR": ("T_max", 1),
    "CosineAnnealingWarmRestarts": ("T_0", 1), "LinearLR": ("total_iters", 3), "ConstantLR": ("total_iters", 2),
    "PolynomialLR": ("total_iters", 1), "OneCycleLR": ("total_steps", 2), "CyclicLR": ("step_size_up", 3),
    "LambdaLR": ("lr_lambda", 1), "get_scheduler": ("num_training_steps", 3),
}  # fmt: skip
"""The argument of each scheduler for its length: its name and position."""
_OF_TRANSFORMERS = ("num_training_steps", 2)
EPOCHS = LazyPattern(r"(?i)(^|_)n?epochs?$")
"""Names of numbers of epochs, and of their counters."""
_PER_EPOCH = LazyPattern(
    r"(?i)(steps?|iters?|iterations|batches|updates)_?(per|in)_?(train_)?epoch$|^(num|n|nb)_?(train(ing)?_)?batch(es)?$"
)
_PER_STEP = LazyPattern(r"(?i)accum|grad_?acc")
_DATASET = LazyPattern(r"(?i)dataset$|(^|_)ds$")
_BATCH_SIZE = LazyPattern(r"(?i)batch_?size$|^bsz?$|(^|_)bs$")
_ROUNDING = frozenset("int float round ceil floor abs max min list tuple sorted".split())
_UPDATES = frozenset({"estimated_stepping_batches"})
"""The attributes that Lightning counts in optimizer steps."""


class Unit(Enum):
    """The unit of a number; the value is the word for it."""

    EPOCHS = "epochs"
    BATCHES = "batches"
    UPDATES = "optimizer steps"
    SAMPLES = "samples"


class Horizon(NamedTuple):
    """The length of a schedule."""

    unit: Unit | None
    """None if not known."""
    argument: str
    """The parameter for the length: `T_max`."""
    written: ast.expr
    numbers: tuple[int, ...]
    """The literal numbers of the length; empty if it consists of variables."""
    is_of_one_epoch: bool = False
    """Whether it is the number of batches of one epoch."""


class Horizons:
    """Finds the lengths of schedules, and the iteration counts of loops."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def of(self, scheduler: Value, loops: Sequence[Loop], every: ast.expr | None = None) -> Horizon | None:
        """The length of a scheduler that steps in the last of these loops, or around it.

        `every` is the number of batches per step.
        """
        call = self._program.tree.node(scheduler.site)
        if not isinstance(call, ast.Call):
            return None
        argument, written = self.length(call)
        if written is None:
            return None
        names = self._names(loops, every)
        power = self._power(written, names) if argument != "steps_per_epoch" else None
        unit = Unit.BATCHES if argument == "steps_per_epoch" else _unit(power)
        return Horizon(unit, argument, written, tuple(self.numbers(written)), power == Counter(["batch"]))

    def unit(self, call: ast.Call) -> Unit | None:
        """The unit of a scheduler's length, by names alone."""
        argument, written = self.length(call)
        if written is None or argument == "steps_per_epoch":
            return Unit.BATCHES if written is not None else None
        return _unit(self._power(written, {}))

    def count(self, loop: Loop) -> ast.expr | None:
        """The iterations of a loop: `n` of `range(n)`, `range(start, n)`, `tqdm(range(n))` and `trange(n)`."""
        node = self._program.tree.node(loop.site)
        iterable = node.iter if isinstance(node, (ast.For, ast.AsyncFor)) else None
        for _ in range(_DEPTH):
            if isinstance(iterable, ast.Name):
                iterable = self.assigned(iterable.id, iterable)
            if not isinstance(iterable, ast.Call) or not iterable.args:
                break
            name = called_name(iterable).rpartition(".")[2]
            if name in ("range", "trange"):
                return iterable.args[min(1, len(iterable.args) - 1)]
            iterable = iterable.args[0] if name in ("tqdm", "enumerate", "track") else None
        return None

    def numbers(self, node: ast.expr, depth: int = _DEPTH) -> Iterator[int]:
        """The literal numbers of an expression, or of a list."""
        if isinstance(node, ast.Constant) and type(node.value) is int:
            yield node.value
        elif isinstance(node, (ast.List, ast.Tuple)):
            found = [list(self.numbers(item, depth)) for item in node.elts]
            yield from (number for item in found for number in item) if all(found) else ()
        elif isinstance(node, ast.Name) and depth and (value := self.assigned(node.id, node)) is not None:
            yield from self.numbers(value, depth - 1)
        elif isinstance(node, (ast.Name, ast.Attribute)):
            number = default_number(node, self._program.definitions_of(node))
            yield from [number] if isinstance(number, int) else ()

    def assigned(self, name: str, near: ast.AST) -> ast.expr | None:
        """The value of a variable, from the only statement that binds it in its function or in the module."""
        tree = self._program.definitions_of(near).tree
        bound = FileIndex.of(tree).bindings_of(name)
        found: list[ast.AST] = []
        for scope in (*(item for item in tree.ancestors(near) if isinstance(item, FUNCTIONS)), None):
            if scope is not None and any(item.arg == name for item in all_parameters(scope)):
                return None
            if found := [item for item in bound if tree.function_around(item) is scope]:
                break
        statement = tree.parent(found[0]) if len(found) == 1 else None
        if isinstance(statement, ast.withitem) and statement.optional_vars is found[0]:
            return statement.context_expr  # a progress bar
        is_plain = isinstance(statement, (ast.Assign, ast.AnnAssign)) and found[0] is not statement.value
        return statement.value if is_plain and isinstance(statement, (ast.Assign, ast.AnnAssign)) else None

    # -- units ------------------------------------------------------------------------------------------

    def _names(self, loops: Sequence[Loop], every: ast.expr | None) -> dict[str, str]:
        """The unit each name counts: epochs of outer loops, batches of the inner loop, and batches per step."""
        found = {}
        for loop in loops[:-1]:
            found.update(dict.fromkeys(self._atoms(self.count(loop)), "epoch"))
        for loop in loops[-1:]:
            found.update(dict.fromkeys(self._atoms(self.count(loop)), "batch"))
            found.update(dict.fromkeys(self._atoms(self._updates(loop, every)), "update"))
        found.update(dict.fromkeys(self._atoms(every), "every"))
        numbers = self.numbers(every) if every is not None else ()
        found.update(dict.fromkeys(map(str, numbers), "every"))
        return found

    def _updates(self, loop: Loop, every: ast.expr | None) -> ast.expr | None:
        """The number `n` of optimizer steps of a loop over `n * every` batches."""
        node = self._program.tree.node(loop.site)
        if every is None or not isinstance(node, (ast.For, ast.AsyncFor)):
            return None
        products = (item for item in walk(node.iter) if isinstance(item, ast.BinOp) and isinstance(item.op, ast.Mult))
        factors = [pair for item in products for pair in ((item.left, item.right), (item.right, item.left))]
        return next((one for one, other in factors if ast.unparse(other) == ast.unparse(every)), None)

    def _atoms(self, node: ast.expr | None) -> Iterator[str]:
        """The name of an expression, as written and as bound."""
        for _ in range(_DEPTH):
            if node is None or not (name := _named(node)):
                break
            yield name.removeprefix("self.")
            node = self._source(node)

    def _source(self, node: ast.expr) -> ast.expr | None:
        """The expression that a variable, a parameter, an attribute or an entry gets, if there is only one."""
        if not isinstance(node, ast.Name):
            return given.stored_for(node, self._program)
        return self.assigned(node.id, node) or given.argument_for(node, self._program)

    def length(self, call: ast.Call) -> tuple[str, ast.expr | None]:
        """The scheduler's argument for its length, with the name of its parameter."""
        name = called_name(call).rpartition(".")[2]
        parameter, place = _WHERE.get(name, _OF_TRANSFORMERS if name.startswith("get_") else ("", 0))
        keywords = {item.arg: item.value for item in call.keywords}
        if name == "OneCycleLR" and "steps_per_epoch" in keywords:
            steps = keywords["steps_per_epoch"]
            return "steps_per_epoch", None if isinstance(steps, ast.Constant) and steps.value == 1 else steps
        by_place = call.args[place] if place and len(call.args) > place else None
        written = keywords.get(parameter, by_place)
        if name == "LambdaLR":
            function = function_of(written, self._program.definitions_of(written)) if written is not None else None
            written = scale_length(function) if function is not None else None
        return parameter, None if isinstance(written, ast.Starred) else written

    def _power(self, node: ast.expr, names: dict[str, str], depth: int = _DEPTH) -> Counter[str] | None:
        """The power of each unit in an expression; empty for a plain number, None if unknown."""
        if isinstance(node, ast.Constant):
            return Counter()
        if _named(node):
            return self._power_of_name(node, names, depth)
        if isinstance(node, (ast.List, ast.Tuple)):
            return self._same([self._power(item, names, depth) for item in node.elts])
        if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            return self._power(node.elt, {**names, **{dotted(item.target): "" for item in node.generators}}, depth)
        if isinstance(node, ast.BinOp):
            return self._power_of_sum(node, names, depth)
        if isinstance(node, ast.Call):
            return self._power_of_call(node, names, depth)
        return None

    def _power_of_name(self, node: ast.expr, names: dict[str, str], depth: int) -> Counter[str] | None:
        name, last = _named(node).removeprefix("self."), _named(node).rpartition(".")[2]
        passed = given.argument_for(node, self._program) if depth else None
        found = self._power(passed, names, depth - 1) if passed is not None else None
        if found:
            return found
        known = names.get(name)
        if known is not None:
            return Counter([known] if known else [])
        value = self._source(node) if depth else None
        found = self._power(value, names, depth - 1) if value is not None else None
        if found:
            return found
        if last in _UPDATES:
            return Counter({"batch": 1, "every": -1})
        if _PER_EPOCH.search(last):
            return Counter(["batch"])
        if EPOCHS.search(last) and "per" not in last:
            is_counted = any(kind == "epoch" and other.rpartition(".")[2] == last for other, kind in names.items())
            return Counter(["epoch" if is_counted or not names else "named epoch"])
        if _PER_STEP.search(last):
            return Counter(["every"])
        if _BATCH_SIZE.search(last):
            return Counter(["batch size"])
        return found

    def _power_of_call(self, node: ast.Call, names: dict[str, str], depth: int) -> Counter[str] | None:
        name = called_name(node).rpartition(".")[2]
        if name == "len" and node.args:
            of = (
                dotted(node.args[0]) or called_name(node.args[0])
                if isinstance(node.args[0], ast.Call)
                else dotted(node.args[0])
            )
            if _DATASET.search(of.rpartition(".")[2]):
                return Counter(["sample"])
            return Counter(["batch"]) if naming.LOADER.search(of) else Counter(["item"])
        if name in _ROUNDING and node.args:
            return self._same([self._power(item, names, depth) for item in node.args])
        return None

    def _power_of_sum(self, node: ast.BinOp, names: dict[str, str], depth: int) -> Counter[str] | None:
        left, right = (self._power(item, names, depth) for item in (node.left, node.right))
        if isinstance(node.op, (ast.Add, ast.Sub)):
            return self._same([left, right])
        if isinstance(node.op, (ast.FloorDiv, ast.Div)):
            if left is not None and right is None and set(left) <= {"epoch", "named epoch"}:
                return left  # a part of the epochs
            if left is not None and left["sample"] and not right:
                return None  # a plain number may be the batch size
            if isinstance(node.right, ast.Constant) and "every" in names.values():
                is_every = names.get(str(node.right.value)) == "every"
                return _minus(left, Counter(["every"])) if is_every else None
            return _minus(left, right)
        if isinstance(node.op, ast.Mult):
            return None if left is None or right is None else _minus(left, Counter({k: -n for k, n in right.items()}))
        return None

    def _same(self, powers: list[Counter[str] | None]) -> Counter[str] | None:
        """The common unit of several numbers, some of which may be plain."""
        if None in powers:
            return None
        found = [item for item in powers if item]
        return (found[0] if all(item == found[0] for item in found) else None) if found else Counter()


def _named(node: ast.expr) -> str:
    """A name, an attribute or a dictionary entry in one form: `config.epochs` for `config["epochs"]`."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
        owner = _named(node.value)
        return f"{owner}.{node.slice.value}" if owner else ""
    return dotted(node) if isinstance(node, (ast.Name, ast.Attribute)) else ""


def _minus(left: Counter[str] | None, right: Counter[str] | None) -> Counter[str] | None:
    if left is None or right is None:
        return None
    found = Counter(left)
    found.subtract(right)
    for kind in ("sample", "item"):
        if found[kind] == 1 and found["batch size"] == -1:
            found[kind] = found["batch size"] = 0
            found["batch"] += 1
    return Counter({kind: times for kind, times in found.items() if times})


def _unit(power: Counter[str] | None) -> Unit | None:
    """The unit of a product."""
    if power is None:
        return None
    if power == Counter(["update"]):
        return Unit.UPDATES
    epochs = power["epoch"] + power["named epoch"]
    if power["batch"] == 1 and epochs in (0, 1) and set(power) <= {"batch", "epoch", "named epoch", "every"}:
        return {0: Unit.BATCHES, -1: Unit.UPDATES}.get(power["every"])
    if power["sample"] == 1 and epochs in (0, 1) and set(power) <= {"sample", "epoch", "named epoch"}:
        return Unit.SAMPLES
    return Unit.EPOCHS if power == Counter(["epoch"]) else None
