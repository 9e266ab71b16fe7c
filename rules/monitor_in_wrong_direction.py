"""Monitored scores whose worst value a trainer takes for the best."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.index import FileIndex
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import callees, names, numbers, records, scores, variables, written
from torchlint.syntax import python_ast
from torchlint.syntax.python_ast import Site

if TYPE_CHECKING:
    from torchlint import Model
    from torchlint.model.definitions import Definitions, FunctionInfo
    from torchlint.syntax.python_ast import Site

_LIGHTNING = ("pytorch_lightning.", "lightning.")
_EFFECTS = {"ModelCheckpoint": "keeps the worst checkpoints", "EarlyStopping": "stops a run that still improves"}
_REMOVED = frozenset({"filepath", "period", "prefix"})
"""Arguments of old versions of Lightning, which derived the mode from the name of the score."""
_TRAINER = frozenset({"TrainingArguments", "Seq2SeqTrainingArguments"})
_PREFERRED = {"min": "lower", "max": "higher"}
"""The values that a mode takes for better."""
_SAVES = LazyPattern(r"(?i)save|checkpoint|ckpt|state_dict|deepcopy|copyfile")
_CHOOSES = LazyPattern(r"(?i)save|best|stop|check|ckpt|update|better|step")
"""Names of methods that may keep the best model."""
_OTHERS = LazyPattern(r"(?i)worst|min|max|low|high")
"""Names of records that keep an extreme score on purpose."""
_LESS = (ast.Lt, ast.LtE)
_ORDERED = (*_LESS, ast.Gt, ast.GtE)


class WorstKept(NamedTuple):
    """The comparison at `test` keeps the worst of the scores `name`, which it gets at `site`."""

    site: Site
    test: Site
    name: str
    better: scores.Better


class _Choice(NamedTuple):
    """A comparison of a score with a record, after which the code keeps the score and saves the model."""

    test: ast.Compare
    score: ast.expr
    kept: scores.Better


class WrongBest(NamedTuple):
    """The call at `site` takes the worst value of the score `monitor` for the best one."""

    site: Site
    monitor: str
    better: scores.Better
    effect: str
    help: str


class MonitorInWrongDirection(Rule):
    """A trainer treats the worst value of the monitored score as the best.

    ## What it does
    Finds Lightning's `ModelCheckpoint`, `EarlyStopping` and monitored `ReduceLROnPlateau` whose `mode` contradicts the
    name of the score: `monitor="val_acc"` with the default `mode="min"`, or `monitor="val_loss"` with `mode="max"`.
    Also finds `TrainingArguments` of transformers that select the best model by a score such as `wer`, but do not set
    `greater_is_better=False`, and code that saves the model whenever an accuracy is below the best one, also in a
    function that gets the accuracy. Also finds early stopping that counts the epochs in which the score improves.

    Not reported if the name does not say which direction is better.

    ## Why is this bad?
    The trainer keeps the worst checkpoint as the best one. Early stopping ends a run that still improves. A plateau
    schedule lowers the learning rate while the score improves. There is no error.

    ## Example
    ```python
    from pytorch_lightning.callbacks import ModelCheckpoint

    checkpoint = ModelCheckpoint(monitor="val_acc", save_top_k=1)
    ```

    Use instead:
    ```python
    from pytorch_lightning.callbacks import ModelCheckpoint

    checkpoint = ModelCheckpoint(monitor="val_acc", mode="max", save_top_k=1)
    ```

    ## References
    - [ModelCheckpoint](https://lightning.ai/docs/pytorch/stable/api/lightning.pytorch.callbacks.ModelCheckpoint.html)
    - [TrainingArguments](https://huggingface.co/docs/transformers/main_classes/trainer#transformers.TrainingArguments)
    """

    code = "TL649"
    category = Category.CORRECTNESS
    triggers = (
        (b"monitor", b"metric_for_best_model", b"best", b"Best"),
        (b"lightning", b"transformers", b"save", b"deepcopy", b"state_dict", b"stop", b"patience"),
    )

    def ask(self) -> Iterator[WrongBest | WorstKept]:
        if not self.model.is_test:
            yield from _worst_kept(self.model)
            for call in FileIndex.of(self.model.tree).calls({*_EFFECTS, *_TRAINER, "ReduceLROnPlateau"}):
                name = names.imported(call.func, self.model.definitions)
                last = name.rpartition(".")[2]
                if name.startswith(_LIGHTNING) and last in _EFFECTS:
                    yield from self._of_callback(call, _EFFECTS[last])
                elif name.startswith("transformers.") and last in _TRAINER:
                    yield from self._of_arguments(call)
                elif name.startswith("torch."):
                    yield from self._of_schedule(call)

    def _of_callback(self, call: ast.Call, effect: str) -> Iterator[WrongBest]:
        """A callback of Lightning; its default mode is `min`."""
        given = {item.arg for item in call.keywords}
        keeps_all = self._constant(call, "save_top_k") in (0, -1)
        if None not in given and _REMOVED.isdisjoint(given) and not keeps_all:
            yield from self._compared(call, self._constant(call, "monitor"), self._mode(call), effect)

    def _of_schedule(self, call: ast.Call) -> Iterator[WrongBest]:
        """The only plateau schedule of `configure_optimizers`, which monitors one score."""
        around = self.model.definitions.method_around(call)
        if around is not None and around.name == "configure_optimizers":
            nodes = list(python_ast.walk(around.node))
            monitors = {value for node in nodes for value in _monitors(node)}
            plateaus = [node for node in nodes if isinstance(node, ast.Call) and _is_plateau(node)]
            is_default = len(call.args) < 2
            if len(monitors) == 1 and plateaus == [call] and is_default:
                effect = "lowers the learning rate while the score improves"
                yield from self._compared(call, monitors.pop(), self._mode(call), effect)

    def _of_arguments(self, call: ast.Call) -> Iterator[WrongBest]:
        """The arguments of a transformers trainer, which takes all scores but losses as better if greater."""
        monitor, greater = self._constant(call, "metric_for_best_model"), self._constant(call, "greater_is_better")
        is_given = any(item.arg in ("greater_is_better", None) for item in call.keywords)
        is_used = self._constant(call, "load_best_model_at_end") is True
        if is_used and isinstance(monitor, str) and (isinstance(greater, bool) or not is_given):
            is_greater = greater if isinstance(greater, bool) else not monitor.endswith("loss")
            better = scores.better_by_name(monitor)
            if better is not None and (better is scores.Better.HIGHER) is not is_greater:
                repair = f"set `greater_is_better={not is_greater}`"
                yield WrongBest(
                    python_ast.site_of(call), monitor, better, "loads the worst checkpoint at the end", repair
                )

    def _compared(self, call: ast.Call, monitor: object, mode: object, effect: str) -> Iterator[WrongBest]:
        better = scores.better_by_name(monitor) if isinstance(monitor, str) else None
        if better is not None and mode in _PREFERRED and _PREFERRED[str(mode)] != better.value:
            right = next(word for word, preferred in _PREFERRED.items() if preferred == better.value)
            yield WrongBest(python_ast.site_of(call), str(monitor), better, effect, f'set `mode="{right}"`')

    def _mode(self, call: ast.Call) -> object:
        return self._constant(call, "mode") if any(item.arg == "mode" for item in call.keywords) else "min"

    def _constant(self, call: ast.Call, keyword: str) -> object:
        """The literal value of a keyword argument, also through a variable; else None."""
        given = next((item.value for item in call.keywords if item.arg == keyword), None)
        value = written.value_of(given, self.model.definitions) if given is not None else None
        return value.value if isinstance(value, ast.Constant) else numbers.literal(value)

    def report_WorstKept(self, found: WorstKept) -> None:
        kept = "lowest" if found.better is scores.Better.HIGHER else "highest"
        self.report(
            found.site,
            f"{found.better.value} `{found.name}` is better, but the code takes the {kept} one for the best",
            related=[(found.test, "this compares it with the best one")] if found.test != found.site else (),
            help="reverse the comparison, and the initial value of the best score",
        )

    def report_WrongBest(self, found: WrongBest) -> None:
        lower, higher = scores.Better
        preferred = (higher if found.better is lower else lower).value
        self.report(
            found.site,
            f"{found.better.value} `{found.monitor}` is better, but this setting prefers {preferred} values: "
            f"it {found.effect}",
            help=found.help,
        )


def _is_plateau(call: ast.Call) -> bool:
    return python_ast.called_name(call) == "ReduceLROnPlateau"


def _monitors(node: ast.AST) -> Iterator[object]:
    """The scores that an entry or argument `monitor` names; None for one that is no literal."""
    pairs: list[tuple[object, ast.expr]] = []
    if isinstance(node, ast.Dict):
        pairs = [(getattr(key, "value", None), value) for key, value in zip(node.keys, node.values, strict=True)]
    elif isinstance(node, ast.keyword):
        pairs = [(node.arg, node.value)]
    elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
        pairs = [(getattr(node.targets[0].slice, "value", None), node.value)]
    yield from (getattr(value, "value", None) for key, value in pairs if key == "monitor")


def _worst_kept(model: Model) -> Iterator[WorstKept]:
    """The choices of a file by a score of the other direction, or of a function that gets such a score."""
    from .record_never_beaten import never_beaten

    known, told = model.definitions, {found.site for found in never_beaten(model)}
    for scope in (known.tree.module, *known.functions):
        for choice in _choices(scope, known):
            name = _name(choice.score)
            is_own = (
                not variables.is_parameter(name, choice.test, known) and python_ast.site_of(choice.test) not in told
            )
            if is_own and scores.better_by_name(name) is _opposite(choice.kept):
                site = python_ast.site_of(choice.test)
                yield WorstKept(site, site, name, _opposite(choice.kept))
    for call in known.tree.of_type(ast.Call):
        if any(scores.better_by_name(_name(item)) is not None for item in python_ast.arguments(call)):
            function = _called(call, model)
            yield from _given_wrong(call, function) if function is not None else ()


def _given_wrong(call: ast.Call, function: FunctionInfo) -> Iterator[WorstKept]:
    """The arguments of a call by which its function keeps the worst model."""
    for choice in _choices(function.node, function.definitions):
        parameter = python_ast.dotted(choice.score)
        item = callees.arguments(call, function).get(parameter)
        is_same = item is not None and not any(names.stores([parameter], function.node))
        if item is not None and is_same and scores.better_by_name(_name(item)) is _opposite(choice.kept):
            yield WorstKept(
                python_ast.site_of(item), python_ast.site_of(choice.test), _name(item), _opposite(choice.kept)
            )


def _opposite(better: scores.Better) -> scores.Better:
    return scores.Better.HIGHER if better is scores.Better.LOWER else scores.Better.LOWER


def _name(node: ast.expr) -> str:
    """The name of a score: `val_acc`, `self.val_acc`, `scores["val_acc"]`."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
        return node.slice.value
    return python_ast.last_name(node) if isinstance(node, (ast.Name, ast.Attribute)) else ""


def _choices(scope: ast.AST, known: Definitions) -> list[_Choice]:
    """The choices in a function, or in the module, without scores that it compares in both directions."""
    found = list(_comparisons(scope, known))
    kept = {(ast.unparse(item.score), item.kept) for item in found}
    return [item for item in found if (ast.unparse(item.score), _opposite(item.kept)) not in kept]


def _comparisons(scope: ast.AST, known: Definitions) -> Iterator[_Choice]:
    for condition in (item for item in names.own_nodes(scope) if isinstance(item, ast.If)):
        is_joined = isinstance(condition.test, ast.BoolOp)
        for found in records.comparisons(condition):
            record = found.record.left if isinstance(found.record, ast.BinOp) else found.record
            kept = scores.Better.HIGHER if found.is_higher else scores.Better.LOWER
            if not python_ast.dotted(record) or _OTHERS.search(python_ast.dotted(record)):
                continue
            found = found._replace(record=record)
            if _keeps(condition.body, condition.orelse, found):
                yield _turned(found.test, found.score, kept, known)
            elif not is_joined and _keeps(condition.orelse, condition.body, found):
                yield _turned(found.test, found.score, _opposite(kept), known)


def _turned(test: ast.Compare, score: ast.expr, kept: scores.Better, known: Definitions) -> _Choice:
    """The choice by the score behind `score = -val_loss`."""
    value = written.only_value(score, known)
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub):
        return _Choice(test, value.operand, _opposite(kept))
    return _Choice(test, score, kept)


def _keeps(branch: list[ast.stmt], other: list[ast.stmt], found: records.Comparison) -> bool:
    """Whether a branch makes a score the record, and saves something, or the other branch counts a failure."""
    calls = (node for statement in branch for node in python_ast.walk(statement) if isinstance(node, ast.Call))
    is_kept = any(_SAVES.search(python_ast.called_name(node)) for node in calls) or any(map(_counts, other))
    return is_kept and records.is_replaced(found, branch)


def _counts(statement: ast.stmt) -> bool:
    """Whether a statement counts, as early stopping does with epochs without progress: `waited += 1`."""
    if not isinstance(statement, ast.AugAssign) or not isinstance(statement.op, ast.Add):
        return False
    return numbers.literal(statement.value) == 1


def _called(call: ast.Call, model: Model) -> FunctionInfo | None:
    """The function of the program that a call runs, also the one method of this name."""
    found = callees.callee(call, model.definitions)
    if found is not None:
        return found
    name = call.func.attr if isinstance(call.func, ast.Attribute) and _CHOOSES.search(call.func.attr) else ""
    methods = [item for item in model.program.functions_named({name}) if item.owner is not None] if name else []
    return methods[0] if len(methods) == 1 else None
