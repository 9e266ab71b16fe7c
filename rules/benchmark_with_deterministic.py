"""cuDNN's benchmark together with deterministic algorithms."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule, Safety, edits
from torchlint.model import definitions
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_CUDNN = "torch.backends.cudnn"
_DETERMINISTIC = "torch.use_deterministic_algorithms"
_TRAINER_OPTIONS = frozenset("gpus distributed_backend tpu_cores benchmark deterministic".split())
"""Arguments of Lightning's `Trainer` that set the flags, and arguments of the versions that always set them."""
_CONVOLVING = tuple(
    (
        b"conv Conv CNN torchvision timm monai segmentation_models ultralytics detectron mmcv diffusers torchaudio "
        b"fastai kornia resnet ResNet UNet efficientnet vgg transformers open_clip torch.hub compressai lpips "
        b"stable_baselines nemo speechbrain"
    ).split()
)
"""Signs that a repository uses convolutions, the only operations that cuDNN's benchmark affects."""
_LAYERS = (b"nn.Linear", b"nn.LSTM", b"nn.GRU", b"nn.Embedding")
"""Signs that a repository builds its own networks, without which torchlint cannot judge them."""


class BothOn(NamedTuple):
    """The code turns on the benchmark at `benchmark` and requests deterministic algorithms at `deterministic`."""

    benchmark: Site
    deterministic: Site


class BenchmarkWithDeterministic(Rule):
    """cuDNN's benchmark is on and defeats the deterministic algorithms.

    ## What it does
    Finds `cudnn.benchmark = True` next to statements that also set `cudnn.deterministic = True` or call
    `torch.use_deterministic_algorithms(True)`, directly or in a function in the same file. Not reported if the same
    function sets one of the flags to a different value.

    ## Why is this bad?
    The benchmark times the algorithms of cuDNN and selects the fastest, which may differ in each run. Each algorithm is
    deterministic, but two runs can use different ones. The results are not reproducible, though the program asks for
    that.

    ## Example
    ```python
    import torch

    def set_seed(seed):
        torch.manual_seed(seed)
        torch.backends.cudnn.deterministic = True
        torch.backends.cudnn.benchmark = True
    ```

    Use instead:
    ```python
    import torch

    def set_seed(seed):
        torch.manual_seed(seed)
        torch.backends.cudnn.deterministic = True
        torch.backends.cudnn.benchmark = False
    ```

    ## Fix safety
    The fix turns the benchmark off. It is safe, because every algorithm computes the same result.

    ## What verify shows
    `torchlint verify` confirms the finding if both settings are on at an optimizer step. It refutes the finding if the
    two settings are never on together in three steps.

    ## References
    - [Reproducibility](https://docs.pytorch.org/docs/stable/notes/randomness.html#cuda-convolution-benchmarking)
    """

    code = "TL603"
    category = Category.SUSPICIOUS
    triggers = ((b"cudnn",), (b"benchmark",), (b"deterministic",))

    def ask(self) -> Iterator[BothOn]:
        if any(map(self._makes_old_trainer, self.model.tree.of_type(ast.Call))):
            return  # the trainer sets both flags itself
        found = list(self._both_on())
        if found and (self.model.mentions(_CONVOLVING) or not self.model.mentions(_LAYERS)):
            yield from found

    def _both_on(self) -> Iterator[BothOn]:
        for statement in self.model.tree.of_type(ast.Assign):
            if self._is_on(statement, "benchmark") and not self._is_undone(statement):
                others = (node for node in self.model.tree.block(statement) if self._asks_for_determinism(node))
                for other in others:
                    yield BothOn(python_ast.site_of(statement), python_ast.site_of(other))
                    break

    def _makes_old_trainer(self, call: ast.Call) -> bool:
        """Whether a call is `Trainer(gpus=1)` of Lightning before 2.0, or a `Trainer` with arguments for the flags."""
        name = self.model.definitions.named(call.func)
        given = {item.arg for item in call.keywords}
        return "lightning" in name and name.endswith(".Trainer") and not given.isdisjoint(_TRAINER_OPTIONS)

    def _is_on(self, statement: ast.AST, flag: str) -> bool:
        """Whether a statement sets a cuDNN flag to True."""
        return any(python_ast.is_literal(value, True) for value in self._values(statement, flag))

    def _values(self, statement: ast.AST, flag: str) -> Iterator[ast.expr]:
        """The values that a statement assigns to a cuDNN flag."""
        if not isinstance(statement, (ast.Assign, ast.AnnAssign)) or statement.value is None:
            return
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for target in targets:
            pairs = [(target, statement.value)]
            if isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple):
                pairs = list(zip(target.elts, statement.value.elts, strict=False))
            for item, value in pairs:
                if self.model.definitions.named(item) == f"{_CUDNN}.{flag}":
                    yield value

    def _asks_for_determinism(self, statement: ast.AST) -> bool:
        if self._is_on(statement, "deterministic"):
            return True
        call = statement.value if isinstance(statement, ast.Expr) else None
        if not isinstance(call, ast.Call):
            return False
        if self.model.definitions.named(call.func) == _DETERMINISTIC:
            return any(python_ast.is_literal(item, True) for item in python_ast.arguments(call)[:1])
        called = self.model.definitions.function_named(python_ast.dotted(call.func))
        return called is not None and self._makes_deterministic(called)

    def _makes_deterministic(self, function: definitions.FunctionInfo) -> bool:
        """Whether a function sets the flag, unconditionally or only where there is a GPU."""
        nodes = (
            node for node in python_ast.walk(function.node) if self.model.definitions.function_around(node) is function
        )
        on = [node for node in nodes if self._is_on(node, "deterministic") and not self._is_asked(node, function)]
        return bool(on) and not self._sets_otherwise(function)

    def _is_asked(self, statement: ast.AST, function: definitions.FunctionInfo) -> bool:
        """Whether a parameter of the function decides whether one of its statements runs."""
        tests = (item.test for item in self.model.tree.ancestors(statement) if isinstance(item, ast.If))
        return any(not python_ast.names_read(test).isdisjoint(function.parameters) for test in tests)

    def _is_undone(self, statement: ast.AST) -> bool:
        """Whether code in the same function or at module level sets a flag to another value."""
        function = self.model.definitions.function_around(statement)
        if function not in self._undone:
            self._undone[function] = self._sets_otherwise(function)
        return self._undone[function]

    @cached_property
    def _undone(self) -> dict[definitions.FunctionInfo | None, bool]:
        return {}

    def _sets_otherwise(self, function: definitions.FunctionInfo | None) -> bool:
        for node in python_ast.walk(function.node if function is not None else self.model.tree.module):
            if self.model.definitions.function_around(node) is not function:
                continue
            assigned = [*self._values(node, "benchmark"), *self._values(node, "deterministic")]
            if isinstance(node, ast.Call) and self.model.definitions.named(node.func) == _DETERMINISTIC:
                assigned += python_ast.arguments(node)[:1]
            if not all(python_ast.is_literal(value, True) for value in assigned):
                return True
        return False

    def report_BothOn(self, both: BothOn) -> None:
        self.report(
            both.benchmark,
            "the benchmark may select a different algorithm in each run, despite the request for deterministic ones",
            related=[(both.deterministic, "this requests deterministic algorithms")],
            help="set `benchmark` to False",
            fix=self._fix(both.benchmark),
        )

    def _fix(self, site: Site) -> edits.Change | None:
        statement = self.model.tree.node(site)
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            return None
        written = self.written(python_ast.site_of(statement.value))
        if written is None or not isinstance(statement.value, ast.Constant):
            return None
        return edits.Change("turn off the benchmark", [edits.Replace(written, "False")], Safety.SAFE)
