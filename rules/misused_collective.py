"""Collective calls whose result is not where the program expects it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model import events, values
from torchlint.model.queries import collectives, losses, names, written
from torchlint.pytorch import api
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_MODULE = "torch.distributed."
_IN_PLACE = frozenset({"all_reduce", "reduce", "broadcast", "all_gather", "scatter", "reduce_scatter"})
_JOINING = frozenset({"cat", "concat", "stack", "vstack"})
_GATHERING = {"all_gather": 0, "gather": 1, "all_gather_object": 0}

_CREATING = ("new_", "tensor", "zeros", "ones", "full", "empty")
"""Beginnings of the names of functions that create tensors."""


class NoResult(NamedTuple):
    """The code uses the result of the collective call `name` at `site`, which is None."""

    site: Site
    name: str


class SameTensor(NamedTuple):
    """The list passed to `name`, made at `made`, holds one tensor several times."""

    site: Site
    made: Site
    name: str


class Dropped(NamedTuple):
    """The call at `site` returns the sum over the processes, and leaves its argument what it is."""

    site: Site
    name: str


class CutGradient(NamedTuple):
    """The code replaces `name`, which has a graph, by what `all_gather` at `site` has copied from all processes."""

    site: Site
    replaced: Site
    name: str


class MisusedCollective(Rule):
    """The result of a collective call is not where the program expects it.

    ## What it does
    Finds results of `all_reduce`, `reduce`, `broadcast` and `all_gather` of `torch.distributed` that the code assigns
    or computes with. Also finds lists for `all_gather` that hold one tensor several times, such as
    `[torch.zeros(n)] * world_size`. Also finds calls whose result the code discards, such as a statement
    `reduce_mean(loss)`, if this function of the program returns a reduced copy of its argument.

    Also finds features that reach a loss only through `all_gather`, which passes no gradient. The code replaces its
    features with the gathered ones, `x = torch.cat(parts)`, and no line such as `parts[rank] = x` keeps its own.

    ## Why is this bad?
    These calls write into their tensor arguments and return None. A list that repeats one tensor has one buffer for the
    data of all processes, so every element holds the data that arrived last. If the program discards the returned copy,
    each process keeps only its own share. `all_gather` copies numbers without their graph, so the network that computed
    the features gets no gradient from the loss.

    ## Example
    ```python
    import torch
    import torch.distributed as dist

    def gather(features, world_size):
        parts = [torch.zeros_like(features)] * world_size
        dist.all_gather(parts, features)
        return torch.cat(parts)
    ```

    Use instead:
    ```python
    import torch
    import torch.distributed as dist

    def gather(features, world_size):
        parts = [torch.zeros_like(features) for _ in range(world_size)]
        dist.all_gather(parts, features)
        return torch.cat(parts)
    ```

    ## References
    - [torch.distributed: collective functions](https://docs.pytorch.org/docs/stable/distributed.html#collective-functions)
    """

    code = "TL618"
    category = Category.CORRECTNESS
    triggers = ((b"distributed",), (b"reduce", b"gather", b"broadcast", b"scatter"))
    calls = frozenset({"all_gather"})

    def ask(self) -> Iterator[NoResult | SameTensor | Dropped | CutGradient]:
        for call in self.model.tree.of_type(ast.Call):
            is_dropped = self.model.tree.stands_alone(call) and not any(map(_is_made_here, call.args))
            if is_dropped and collectives.reduced_copy(call, self.model.definitions):
                yield Dropped(python_ast.site_of(call), python_ast.called_name(call))
        collective = {f"{_MODULE}{name}" for name in (*_IN_PLACE, *_GATHERING)}
        for call, qualified in names.calls_of(collective, self.model.definitions):
            name = qualified.removeprefix(_MODULE)
            if name in _IN_PLACE and self._is_used(call):
                yield NoResult(python_ast.site_of(call), name)
            if name in _GATHERING and (given := written.argument(call, _GATHERING[name], "tensor_list")) is not None:
                made = written.value_of(given, self.model.definitions)
                cut = self._replaced(call, given) if name == "all_gather" else None
                if cut is not None:
                    yield CutGradient(
                        python_ast.site_of(call), python_ast.site_of(cut), python_ast.dotted(cut.targets[0])
                    )
                if name != "all_gather_object" and collectives.repeats_one(made):
                    yield SameTensor(python_ast.site_of(given), python_ast.site_of(made), name)

    def _replaced(self, call: ast.Call, parts: ast.expr) -> ast.Assign | None:
        """The statement that replaces the gathered tensor, which has a graph, by the list from all processes."""
        own, function = written.argument(call, 1, "tensor"), self.model.tree.function_around(call)
        if not isinstance(own, ast.Name) or not isinstance(parts, ast.Name) or function is None:
            return None
        nodes = list(names.own_nodes(function))
        changes = (item for item in nodes if isinstance(item, ast.Subscript) and not written.is_load(item))
        if any(python_ast.dotted(item.value) == parts.id for item in changes) or not self._trains(function, own):
            return None
        for node in nodes:
            if isinstance(node, ast.Assign) and node.lineno > call.lineno and isinstance(node.value, ast.Call):
                is_joined = python_ast.called_name(node.value) in _JOINING and node.value.args
                if is_joined and python_ast.dotted(node.value.args[0]) == parts.id:
                    return node if python_ast.dotted(node.targets[0]) == own.id else None
        return None

    def _trains(self, function: ast.FunctionDef | ast.AsyncFunctionDef, own: ast.Name) -> bool:
        """Whether a function computes the features with gradients, and a loss of PyTorch from them."""
        is_computed = has_loss = False
        for event in (event for trace in self.model.program.traces for event in trace.of(events.Compute)):
            if self.model.tree.function_around(self.model.tree.node(event.site)) is function:
                if event.mode is not api.GradMode.OFF:
                    has_loss = has_loss or bool(losses.loss_function(event.value))
                is_tracked = self.model.tracking.tracked(event.value) is values.Answer.YES
                is_computed = is_computed or (event.value.label == own.id and is_tracked)
        return is_computed and has_loss

    def _is_used(self, call: ast.Call) -> bool:
        """Whether the code assigns or computes with the result of a synchronous call."""
        if any(item.arg in ("async_op", None) for item in call.keywords) or len(call.args) > 3:
            return False
        around = self.model.tree.parent(call)
        if isinstance(around, ast.Assign):
            target = around.targets[0]
            is_kept = isinstance(target, ast.Name) and not target.id.strip("_")
            return not is_kept and collectives.is_result_read(target, self.model.tree)
        return isinstance(around, (ast.BinOp, ast.Attribute, ast.Subscript))

    def report_NoResult(self, found: NoResult) -> None:
        self.report(
            found.site,
            f"`{found.name}` writes into its argument and returns None",
            help="call it as a separate statement, and use the tensor passed to it",
        )

    def report_SameTensor(self, found: SameTensor) -> None:
        self.report(
            found.site,
            f"the list for `{found.name}` holds one tensor several times: each element is the data that arrived last",
            related=[(found.made, "the list is made here")],
            help="create one tensor for each process: `[torch.empty_like(x) for _ in range(n)]`",
        )

    def report_CutGradient(self, found: CutGradient) -> None:
        self.report(
            found.site,
            f"`all_gather` copies `{found.name}` without its graph: the network that computed it gets no gradient",
            related=[(found.replaced, f"the copies replace `{found.name}` here")],
            help=f"set `tensors[rank] = {found.name}`, or use `torch.distributed.nn.all_gather`",
        )

    def report_Dropped(self, found: Dropped) -> None:
        self.report(
            found.site,
            f"`{found.name}` returns a reduced copy, which is discarded: its argument still holds only this process's "
            "share",
            help=f"use the result: `x = {found.name}(x)`",
        )


def _is_made_here(argument: ast.expr) -> bool:
    """Whether the call creates its argument: then it only takes part in the call of the other processes."""
    return isinstance(argument, ast.Call) and python_ast.called_name(argument).startswith(_CREATING)
