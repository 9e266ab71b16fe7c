"""Models that predict in training mode with loaded weights."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.model import events, program, values
from torchlint.model.queries import names, written
from torchlint.model.relations import mode
from torchlint.pytorch import api, naming
from torchlint.syntax import python_ast

_MOVES = frozenset({"to", "cuda", "cpu", "float", "half", "double", "unsqueeze", "type"})
_SIZES = frozenset({"size", "shape", "dim", "ndim", "numel", "dtype", "device"})
_TRIALS = frozenset({"torch.rand", "torch.randn", "torch.zeros", "torch.ones", "torch.empty"})
"""Functions that create the inputs of a program that only tries a model."""


class Predicted(NamedTuple):
    """`forward` predicts with a module in training mode since its creation, with weights of `load`."""

    forward: mode.Pass
    load: events.Call
    name: str
    kept: str
    """The effect of a module's layer that exists only in training."""


class CheckpointUsedWithoutEval(Rule):
    """A model predicts with loaded weights in training mode: `eval()` is missing.

    ## What it does
    Finds models that load weights with `load_state_dict` and predict, if nothing calls `eval()` and nothing trains
    them. Reported only if torchlint knows that the model has layers or code that depend on the mode: dropout, batch
    normalization, `if self.training:`.

    Not reported if names suggest Monte Carlo dropout, or if the same input runs several times.

    ## Why is this bad?
    Predictions are random or wrong. A new model is in training mode, and loading weights does not change the mode.
    Dropout drops elements at random, so each prediction differs. Batch normalization uses the statistics of the input,
    perhaps of a single image, and overwrites the loaded statistics.

    ## Example
    ```python
    import torch

    def predict(path, picture):
        model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.Conv2d(8, 2, 1))
        model.load_state_dict(torch.load(path, weights_only=True))
        with torch.no_grad():
            return model(picture).argmax(1)
    ```

    Use instead:
    ```python
    import torch

    def predict(path, picture):
        model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.Conv2d(8, 2, 1))
        model.load_state_dict(torch.load(path, weights_only=True))
        model.eval()
        with torch.no_grad():
            return model(picture).argmax(1)
    ```

    ## Known limits
    If `__init__` loads the weights, torchlint does not follow them into other methods.

    ## References
    - [Saving and loading models](https://docs.pytorch.org/tutorials/beginner/saving_loading_models.html)
    """

    code = "TL120"
    category = Category.CORRECTNESS
    triggers = ((b"load_state_dict",),)
    calls = frozenset({"load_state_dict"})

    def ask(self) -> Iterator[Predicted]:
        """The first prediction of each model."""
        for trace in [] if self.model.is_test else self.model.program.traces:
            if not trace.of_kinds(events.Backward, events.Step):
                for module, own in self.model.mode.by_module(trace).items():
                    yield from self._of_module(trace, module, own)

    def _of_module(self, trace: program.Trace, module: values.Value, own: list[mode.Pass]) -> Iterator[Predicted]:
        load = next((item for item in self.model.mode.loads(trace) if item.value.parents[0] is module), None)
        if load is None or not self.model.mode.starts_in_training(trace, module):
            return
        for forward in own:
            settings = self.model.mode.at(trace, forward, module)
            is_as_made = bool(settings) and all(item.switch is None and item.since is None for item in settings)
            kept = self.model.training_layers.lost(module) if is_as_made and self._predicts(forward) else None
            if kept is not None and kept != api.PRETRAINED_DROPOUT:
                yield Predicted(forward, load, module.label, kept)
                return

    def _predicts(self, forward: mode.Pass) -> bool:
        """Whether the code uses a pass's result without gradients or for a class, and no name suggests randomness."""
        node = self.model.tree.node(forward.site)
        return not (self.model.tree.stands_alone(node) or self._is_measured(node) or self._is_drawn_again(node))

    def _is_measured(self, node: ast.AST | None) -> bool:
        """Whether code only reads the size of a pass's result, or passes random numbers to try the model."""
        definitions, above = self.model.definitions, self.model.tree.parent(node) if node is not None else None
        given = [written.value_of(item, definitions) for item in node.args] if isinstance(node, ast.Call) else []
        inner = [python_ast.without_calls(item, _MOVES) for item in given]
        if any(isinstance(item, ast.Call) and definitions.named(item.func) in _TRIALS for item in inner):
            return True
        if isinstance(above, ast.Attribute):
            return above.attr in _SIZES
        name = python_ast.dotted(above.targets[0]) if isinstance(above, ast.Assign) else ""
        scope = self.model.tree.scope_around(node) if node is not None and name else None
        reads = [
            self.model.tree.parent(item) for item in (names.own_nodes(scope) if scope is not None else ())
            if isinstance(item, ast.Name) and item.id == name and isinstance(item.ctx, ast.Load)
        ]  # fmt: skip
        return bool(reads) and all(isinstance(item, ast.Attribute) and item.attr in _SIZES for item in reads)

    def _is_drawn_again(self, node: ast.AST) -> bool:
        """Whether a pass runs many times for one input, or in a function whose name suggests randomness."""
        around = list(self.model.tree.ancestors(node))
        names = [item.name for item in around if isinstance(item, python_ast.FUNCTIONS)]
        counted = (
            item.iter for part in around for item in getattr(part, "generators", [part]) if hasattr(item, "iter")
        )
        is_counted = any(isinstance(item, ast.Call) and python_ast.called_name(item) == "range" for item in counted)
        return is_counted or any(map(naming.STOCHASTIC.search, names))

    def report_Predicted(self, found: Predicted) -> None:
        name = f"`{found.name}`" if found.name else "the model"
        self.report(
            found.forward.site,
            f"{name} predicts in training mode, with {found.kept}: nothing calls `eval()`",
            related=[(found.load.site, "the weights are loaded here")],
            help="call `eval()` after loading the weights",
        )
