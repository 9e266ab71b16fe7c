"""cuDNN's benchmark beside deterministic algorithms."""

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
"""Arguments of Lightning's `Trainer` that set the flags, and those of the versions in which it always set them."""
_CONVOLVING = tuple(
    (
        b"conv Conv CNN torchvision timm monai segmentation_models ultralytics detectron mmcv diffusers torchaudio "
        b"fastai kornia resnet ResNet UNet efficientnet vgg transformers open_clip torch.hub compressai lpips "
        b"stable_baselines nemo speechbrain"
    ).split()
)
"""What a repository has that convolves: cuDNN's benchmark chooses among algorithms for nothing else."""
_LAYERS = (b"nn.Linear", b"nn.LSTM", b"nn.GRU", b"nn.Embedding")
"""What a repository has that makes its networks itself, without which nothing is known of them."""


class BothOn(NamedTuple):
    """The benchmark is switched on at `benchmark`, deterministic algorithms are asked for at `deterministic`."""

    benchmark: Site
    deterministic: Site


class BenchmarkWithDeterministic(Rule):
    """cuDNN's benchmark is on beside deterministic algorithms, which it undoes.

    ## What it does
    Finds `cudnn.benchmark = True` among the statements that also set `cudnn.deterministic = True` or call
    `torch.use_deterministic_algorithms(True)`, or that call a function of the file which does, with nothing in that
    function that sets one of them to something else. It is a preview: of 99 findings in twelve readings 88 were right,
    most of them copies, and the others in programs where nothing convolves or a framework sets the flags once more.

    ## Why is this bad?
    The benchmark times the algorithms of cuDNN and takes the fastest, which may be another one in each run. Each of
    them is deterministic, yet two runs differ: the results cannot be reproduced, though the program asks for that.

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
    Switching the benchmark off is safe: every algorithm computes the same.

    ## References
    - [Reproducibility](https://docs.pytorch.org/docs/stable/notes/randomness.html#cuda-convolution-benchmarking)
    """

    code = "TL603"
    category = Category.SUSPICIOUS
    preview = True
    triggers = ((b"cudnn",), (b"benchmark",), (b"deterministic",))

    def ask(self) -> Iterator[BothOn]:
        if any(map(self._makes_old_trainer, self.model.tree.of_type(ast.Call))):
            return  # which sets both flags itself
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
        """`Trainer(gpus=1)` of Lightning before 2.0, or one that is told what to do about the flags."""
        name = self.model.definitions.named(call.func)
        given = {item.arg for item in call.keywords}
        return "lightning" in name and name.endswith(".Trainer") and not given.isdisjoint(_TRAINER_OPTIONS)

    def _is_on(self, statement: ast.AST, flag: str) -> bool:
        """Whether a statement sets a flag of cuDNN to True."""
        return any(python_ast.is_literal(value, True) for value in self._values(statement, flag))

    def _values(self, statement: ast.AST, flag: str) -> Iterator[ast.expr]:
        """What a statement assigns to a flag of cuDNN."""
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
        """Whether a function sets the flag, if only where there is a GPU, and nothing otherwise."""
        nodes = (node for node in ast.walk(function.node) if self.model.definitions.function_around(node) is function)
        on = [node for node in nodes if self._is_on(node, "deterministic") and not self._is_asked(node, function)]
        return bool(on) and not self._sets_otherwise(function)

    def _is_asked(self, statement: ast.AST, function: definitions.FunctionInfo) -> bool:
        """Whether a parameter of the function decides whether a statement of it runs."""
        tests = (item.test for item in self.model.tree.ancestors(statement) if isinstance(item, ast.If))
        return any(not python_ast.names_read(test).isdisjoint(function.parameters) for test in tests)

    def _is_undone(self, statement: ast.AST) -> bool:
        """Whether something in the same function, or on the level of the module, sets a flag to anything else."""
        function = self.model.definitions.function_around(statement)
        if function not in self._undone:
            self._undone[function] = self._sets_otherwise(function)
        return self._undone[function]

    @cached_property
    def _undone(self) -> dict[definitions.FunctionInfo | None, bool]:
        return {}

    def _sets_otherwise(self, function: definitions.FunctionInfo | None) -> bool:
        for node in ast.walk(function.node if function is not None else self.model.tree.module):
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
            "the benchmark may choose another algorithm in each run, though deterministic ones are asked for",
            related=[(both.deterministic, "they are asked for here")],
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
        return edits.Change("switch the benchmark off", [edits.Replace(written, "False")], Safety.SAFE)
