"""Activation checkpointing without an explicit variant."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Confidence, Rule, edits
from torchlint.index import FileIndex
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import module_values, values
from torchlint.model.queries import version_guards
from torchlint.pytorch import api, table
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_IMPORT = LazyPattern(
    rb"\butils[\s)]*\.\s*checkpoint|\btorch\s*\.\s*utils\s+(?:import|as)\b|\btorch\s+import\b[^\r\n]*\butils\b"
)
_OPTION = "use_reentrant"
_ASKED_FOR = LazyPattern(rb"\buse_reentrant\s*=\s*True\b")
_KNOWN_SINCE, _WARNS_SINCE = (1, 11), (2, 1)
"""The first releases that take the option, and that warn where it is left out."""
_HOOKS = (b"require_grads", b"inputs_require_grad", b"register_forward_hook", b"register_forward_pre_hook")
"""Words in code that makes inputs require grad from outside."""
_OWN_OPTIONS = frozenset(
    {_OPTION, "function", "functions", "segments", "input", "preserve_rng_state", "determinism_check"}
)
"""Keywords of the reentrant variant; it does not accept `context_fn`, `debug` and arguments of the block."""


class Reentrant(NamedTuple):
    """A call uses the reentrant variant, explicitly or by default."""

    call: Site
    name: str
    inputs: str
    """An input, if certainly none of them requires grad."""
    keyword: str
    """A keyword argument for the block, if there is one."""
    is_sure: bool = False
    """Whether no input can have a graph in any case, and the block has weights that nothing freezes."""


class ReentrantCheckpoint(Rule):
    """Checkpointing without `use_reentrant` uses the reentrant variant.

    ## What it does
    Finds calls to `torch.utils.checkpoint.checkpoint` and `checkpoint_sequential` that omit `use_reentrant`, unless the
    project supports only PyTorch versions before 2.1, which do not warn. Also finds the reentrant variant, explicit or
    by default, where:

    - no input of the block can require grad; torchlint also checks this in imported files, for calls with
      `use_reentrant=True`;
    - the block receives a keyword argument, which raises an error.

    Not reported for PyTorch versions older than 1.11, which have no such argument.

    The finding has low confidence unless all of these hold: `use_reentrant=True` is explicit, no input ever has a
    graph, and the block has weights that nothing freezes.

    ## Why is this bad?
    Without the argument PyTorch warns, uses the reentrant variant, and has announced a new default. The reentrant
    variant computes no gradient for the block's weights if no input requires one, as in the first block of a
    network. It does not work with `torch.autograd.grad`, keyword arguments, or tensors in nested structures.

    ## Example
    ```python
    import torch
    from torch import nn
    from torch.utils.checkpoint import checkpoint

    class Net(nn.Module):
        def __init__(self, backbone):
            super().__init__()
            self.backbone = backbone
            self.head = nn.Linear(8, 2)

        def forward(self, x):
            with torch.no_grad():
                x = self.backbone(x)
            return checkpoint(self.head, x, use_reentrant=True)
    ```

    Use instead:
    ```python
    import torch
    from torch import nn
    from torch.utils.checkpoint import checkpoint

    class Net(nn.Module):
        def __init__(self, backbone):
            super().__init__()
            self.backbone = backbone
            self.head = nn.Linear(8, 2)

        def forward(self, x):
            with torch.no_grad():
                x = self.backbone(x)
            return checkpoint(self.head, x, use_reentrant=False)
    ```

    ## Fix safety
    The fix adds `use_reentrant=False`. It is unsafe: weights without gradients may receive them, and the block runs
    differently.

    ## What verify shows
    `torchlint verify` follows the checkpoint. It confirms the finding if parameters inside the checkpoint get no
    gradient, because no input requires a gradient.

    ## References
    - [torch.utils.checkpoint](https://docs.pytorch.org/docs/stable/checkpoint.html): "If `use_reentrant` is not passed
      explicitly, a warning is raised"
    """

    code = "TL205"
    category = Category.SUSPICIOUS
    aliases = ("TOR003",)
    triggers = ((b"checkpoint",), (b"torch",))
    calls = frozenset({"checkpoint", "checkpoint_sequential"})

    @classmethod
    def may_fire(cls, code: bytes) -> bool:
        return _IMPORT.search(code) is not None or b"gradient_checkpointing" in code

    def ask(self) -> Iterator[Reentrant]:
        releases = self.model.torch
        if releases.highest < _KNOWN_SINCE:
            return
        for call in self.model.tree.of_type(ast.Call):
            name = self.model.definitions.named(call.func)
            if name not in table.CHECKPOINTS or any(item.arg is None for item in call.keywords):
                continue
            option = next((item.value for item in call.keywords if item.arg == _OPTION), None)
            untracked = self._untracked.get(python_ast.site_of(call), "")
            keyword = next((str(item.arg) for item in call.keywords if item.arg not in _OWN_OPTIONS), "")
            told = option is not None and python_ast.is_literal(option, True)
            is_left_out = option is None and not version_guards.has_other_form(self.model.tree, call, _OPTION)
            warns = is_left_out and releases.highest >= _WARNS_SINCE
            if warns or ((told or is_left_out) and (untracked or keyword)):
                is_sure = told and python_ast.site_of(call) in self._without_graph
                yield Reentrant(python_ast.site_of(call), name.rpartition(".")[2], untracked, keyword, is_sure)
        yield from self._elsewhere()

    def _elsewhere(self) -> Iterator[Reentrant]:
        """Calls in files that this one imports, with their inputs."""
        for site, untracked in self._untracked.items():
            call = self.model.tree.node(site) if site.inner is not None and untracked else None
            if isinstance(call, ast.Call) and any(
                item.arg == _OPTION and python_ast.is_literal(item.value, True) for item in call.keywords
            ):
                owner = self.model.program.definitions_of(call).method_around(call)
                made = self._made(owner.owner.name) if owner is not None and owner.owner is not None else None
                where = made._replace(inner=site.inner) if made is not None else site
                yield Reentrant(where, python_ast.called_name(call), untracked, "", site in self._without_graph)

    def _made(self, name: str) -> Site | None:
        """The places where this file creates an object of a class."""
        calls = FileIndex.of(self.model.tree).calls_named(name)
        return next(map(python_ast.site_of, calls), None)

    @cached_property
    def _without_graph(self) -> set[Site]:
        """Calls that certainly prevent their block from learning."""
        found: set[Site] = set()
        for result in self.model.program.observations.checkpoints:
            block, inputs = values.resolved(result.parents[0]), result.parents[1:]
            tensors = [item for item in inputs if not isinstance(item, values.Plain)]
            are_cut = all(self.model.tracking.tracked(item) is values.Answer.NO for item in tensors)
            is_free = isinstance(block, values.Module) and module_values.has_parameters(block)
            if result.site is not None and is_free and are_cut and not self.model.frozen.may_be_partly(block):
                found.add(result.site)
        return found

    @cached_property
    def _untracked(self) -> dict[Site, str]:
        """Calls whose inputs certainly have no graph, each with the code of one input."""
        self._read_modules_elsewhere()
        found: dict[Site, str] = {}
        for result in self.model.program.observations.checkpoints:
            if result.site is not None:
                first = self._first_untracked(self.model.tree.node(result.site), result)
                found[result.site] = first if found.get(result.site, first) else ""
        return found

    def _read_modules_elsewhere(self) -> None:
        """Let the interpreter analyze the `forward` of modules in imported files that ask for the reentrant variant."""
        for tree, definitions in self.model.program.files.items():
            if tree is not self.model.tree and _ASKED_FOR.search(tree.source.code) is not None:
                for info in definitions.classes.values():
                    if "forward" in info.methods and self.model.program.is_module_class(info):
                        self.model.program.returned_by(info)

    def _first_untracked(self, call: ast.AST, result: values.Unknown) -> str:
        """An input of a call, if none of its inputs can have a graph and gradients are on."""
        assert isinstance(call, ast.Call)
        if result.mode is not api.GradMode.ON or any(isinstance(item, ast.Starred) for item in call.args):
            return ""
        skipped = 1 if python_ast.called_name(call) == "checkpoint" else 2
        inputs = [
            (node, values.resolved(value))
            for node, value in zip(call.args[skipped:], result.parents[skipped:], strict=False)
            if not isinstance(value, values.Plain)
        ]
        untracked = [node for node, value in inputs if self._is_untracked(value)]
        return self.model.tree.code(untracked[0]) if untracked and len(untracked) == len(inputs) else ""

    def _is_untracked(self, value: values.Value) -> bool:
        """Whether a tensor has no graph, at least at the start of a loop."""
        while isinstance(value, values.Phi) and value.is_loop:
            value = values.resolved(value.parents[0])
        if not isinstance(value, values.Tensor) or value.leaf:
            return False
        return self.model.tracking.tracked(value) is values.Answer.NO or self._is_of_frozen_embedding(value)

    def _is_of_frozen_embedding(self, value: values.Tensor) -> bool:
        """Whether a frozen embedding computes a value from indices, and no hook changes that."""
        module = values.resolved(value.parents[0]) if isinstance(value, values.ModuleOutput) else None
        if not isinstance(module, values.Module) or module.name != "torch.nn.Embedding":
            return False
        return self.model.frozen.may_be(module) and not self._has_hooks

    @cached_property
    def _has_hooks(self) -> bool:
        return self.model.mentions(_HOOKS) or any(word in self.model.tree.source.code for word in _HOOKS)

    # -- report ----------------------------------------------------------------------------------------

    def report_Reentrant(self, reentrant: Reentrant) -> None:
        name, given = reentrant.name, reentrant.inputs
        if reentrant.keyword:
            message = (
                f"a reentrant `{name}` does not accept the keyword argument `{reentrant.keyword}`: the call raises"
            )
        elif given:
            message = f"`{given}` does not require grad: a reentrant `{name}` gives the block's weights no gradient"
        else:
            message = f"`{name}` without `{_OPTION}` is reentrant: the block learns only if an input requires grad"
        self.report(
            reentrant.call,
            message,
            help=f"pass `{_OPTION}=False`",
            confidence=Confidence.MEDIUM if reentrant.is_sure and given else Confidence.LOW,
            fix=self._fix(self.model.tree.own_node(reentrant.call)),
        )

    def _fix(self, call: ast.AST | None) -> edits.Change | None:
        """The argument after all others, or in place of the wrong one."""
        if not isinstance(call, ast.Call):
            return None
        told = next((item.value for item in call.keywords if item.arg == _OPTION), None)
        last = told or max((*call.args, *(item.value for item in call.keywords)), key=python_ast.end_of, default=None)
        if isinstance(last, ast.Starred):
            last = last.value
        node = self.written(python_ast.site_of(last)) if last is not None else None
        if node is None or last is None:
            return None
        code = self.model.tree.code(last)
        if told is None and ("\n" in code or node.lpar or isinstance(last, ast.GeneratorExp)):
            return None
        new = "False" if told is not None else f"{code}, {_OPTION}=False"
        return edits.Change(f"pass `{_OPTION}=False`", [edits.Replace(node, new)])
