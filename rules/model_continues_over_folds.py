"""Cross-validation that trains one model on all folds, one after the other."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import events, program, values
from torchlint.model.queries import names, written
from torchlint.pytorch import api, triggers
from torchlint.syntax import python_ast

_SPLITTERS = LazyPattern(r"Fold$|ShuffleSplit$|^Leave(One|P)(Group)?s?Out$|^TimeSeriesSplit$|^PredefinedSplit$")
_FOLD = LazyPattern(r"(?i)(^|_)k?folds?(_|$)|(^|_)fold(_?id|_?idx|_?index|_?no|_?num)?$")
_CHANGING = LazyPattern(
    r"(?i)reset|init|load_(state|model|check|weight|param|ckpt)|^load$|restore|deepcopy|clone|weights|^apply$"
    r"|(build|create|make|get|new)_?(model|net)"
)
"""Names of calls that may give a model its first weights again."""


class Continued(NamedTuple):
    """The folds of `loop` all train the model `module`, which was created before the loop."""

    step: events.Step
    loop: events.Loop
    module: values.Value
    evaluated: python_ast.Site


class ModelContinuesOverFolds(Rule):
    """All folds of a cross-validation train the same model, one after the other.

    ## What it does
    Finds loops over the folds of a cross-validation that train and evaluate a model created before the loop. The
    folds come from a splitter of scikit-learn, such as `KFold`, or the variable of the loop is called `fold`.

    Not reported where the loop resets, loads or creates weights.

    ## Why is this bad?
    From the second fold on, the model has already been trained on the samples that now validate it. The scores rise
    from fold to fold, and their mean is far too good.

    ## Example
    ```python
    import torch
    import torch.nn.functional as F
    from sklearn.model_selection import KFold

    def cross_validate(x, y):
        model = torch.nn.Linear(8, 2)
        scores = []
        for train, test in KFold(5).split(x):
            optimizer = torch.optim.Adam(model.parameters())
            for i in train:
                optimizer.zero_grad()
                F.cross_entropy(model(x[i]), y[i]).backward()
                optimizer.step()
            with torch.no_grad():
                scores.append((model(x[test]).argmax(1) == y[test]).float().mean())
        return scores
    ```

    Use instead:
    ```python
    import torch
    import torch.nn.functional as F
    from sklearn.model_selection import KFold

    def cross_validate(x, y):
        scores = []
        for train, test in KFold(5).split(x):
            model = torch.nn.Linear(8, 2)
            optimizer = torch.optim.Adam(model.parameters())
            for i in train:
                optimizer.zero_grad()
                F.cross_entropy(model(x[i]), y[i]).backward()
                optimizer.step()
            with torch.no_grad():
                scores.append((model(x[test]).argmax(1) == y[test]).float().mean())
        return scores
    ```
    """

    code = "TL147"
    category = Category.CORRECTNESS
    triggers = (triggers.BACKWARD, (b"fold", b"Fold", b"ShuffleSplit", b"Leave"), (b"for ",))

    def ask(self) -> Iterator[Continued]:
        done: set[events.Loop] = set()
        for trace in [] if self.model.is_test else self.model.program.traces:
            for step in trace.of(events.Step):
                for loop in step.loops:
                    if isinstance(loop, events.Loop) and loop not in done and self._is_over_folds(loop):
                        done.add(loop)
                        found = self._continued(trace, step, loop)
                        if found is not None:
                            yield found

    def _is_over_folds(self, loop: events.Loop) -> bool:
        """Whether a loop of this file iterates over folds, and changes no weights itself."""
        node = self.model.tree.own_node(loop.site)
        if not isinstance(node, ast.For):
            return False
        calls = [item for item in python_ast.walk(node.iter) if isinstance(item, ast.Call)]
        splits = [
            item.func.value for item in calls if isinstance(item.func, ast.Attribute) and item.func.attr == "split"
        ]
        makers = [written.value_of(item, self.model.definitions) for item in splits]
        is_split = any(
            isinstance(item, ast.Call) and _SPLITTERS.search(python_ast.called_name(item)) for item in makers
        )
        is_named = any(map(_FOLD.search, python_ast.names_in(node.target)))
        return (is_split or is_named) and not any(map(self._changes_weights, node.body))

    def _changes_weights(self, statement: ast.stmt) -> bool:
        calls = [item for item in python_ast.walk(statement) if isinstance(item, ast.Call)]
        functions = (names.function(item.func, self.model.definitions) for item in calls)
        inner = [node for item in functions if item is not None for node in python_ast.walk(item.node)]
        calls += [node for node in inner if isinstance(node, ast.Call)]
        return any(_CHANGING.search(python_ast.called_name(item)) for item in calls)

    def _continued(self, trace: program.Trace, step: events.Step, loop: events.Loop) -> Continued | None:
        optimizer = values.resolved(step.optimizer)
        held, all_known = self.model.ownership.held_by(optimizer)
        if not all_known or not held or not isinstance(optimizer, values.Optimizer) or optimizer.info is not None:
            return None
        if not all(isinstance(item, values.Module) and loop not in item.loops for item in held):
            return None
        for event in trace.of(events.Compute):
            output = event.value
            if loop in event.loops and isinstance(output, values.ModuleOutput) and event.mode is api.GradMode.OFF:
                if values.resolved(output.parents[0]) in held and event.site is not None:
                    return Continued(step, loop, next(iter(held)), event.site)
        return None

    def report_Continued(self, found: Continued) -> None:
        name = found.module.label or "the model"
        related = [
            (found.step.site, "each fold trains it further"),
            (found.evaluated, "and evaluates it on other samples"),
        ]
        if found.module.site is not None:
            related.insert(0, (found.module.site, "it is created here, once"))
        self.report(
            found.loop.site,
            f"all folds train the same `{name}`: it has already seen the validation samples of later folds",
            related=related,
            help="create the model in the loop",
        )
