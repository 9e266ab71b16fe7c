"""Collective calls that only one process makes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Confidence, Rule
from torchlint.model.queries import names, ranks, shares, written
from torchlint.syntax import python_ast
from torchlint.syntax.python_ast import Site

if TYPE_CHECKING:
    from torchlint.model.definitions import FunctionInfo

_COLLECTIVES = frozenset(
    "barrier all_reduce all_gather all_gather_object all_gather_into_tensor broadcast broadcast_object_list reduce "
    "reduce_scatter gather gather_object scatter scatter_object_list all_to_all monitored_barrier".split()
)
_MAKING_ENGINES = frozenset({"deepspeed.initialize"})
_OF_ENGINES = frozenset({"save_checkpoint", "save_16bit_model", "load_checkpoint"})


_OF_FRAMEWORKS = {
    "is_global_zero": frozenset({"save_checkpoint", "strategy.barrier"}),
    "is_main_process": frozenset({"wait_for_everyone", "gather", "gather_for_metrics", "reduce"}),
    "is_local_main_process": frozenset({"wait_for_everyone", "gather", "gather_for_metrics", "reduce"}),
}
"""Conditions of Lightning's trainer and of Accelerate, with methods of the same object for which all processes wait."""


class OneRank(NamedTuple):
    """Only processes for which `condition` holds make the collective call at `site`."""

    site: Site
    condition: Site
    called: str
    is_sure: bool = False
    """Whether the object of the condition makes the call itself, so that its other processes wait for the same."""


class OneShare(NamedTuple):
    """Only processes whose data grew `counted` at `growth` make the collective call at `site`."""

    site: Site
    condition: Site
    growth: Site
    called: str
    counted: str


class CollectiveOnOneRank(Rule):
    """A collective call depends on the rank: other processes never make it.

    ## What it does
    Finds collective calls of `torch.distributed`, and checkpoints of DeepSpeed engines, under a condition on the rank
    such as `if rank == 0:`, or after `if rank != 0: return`. The call may be in a function in the same file. Not
    reported if another branch makes the same call, or if the call passes `group=`. All findings of this paragraph need
    `--preview`, because the other processes may make the call elsewhere.

    Also finds `trainer.save_checkpoint` of Lightning under `if trainer.is_global_zero:`, and
    `accelerator.wait_for_everyone` and `gather` of Accelerate under `if accelerator.is_main_process:`.

    Also finds collective calls under a condition such as `if len(values) > 0:`, if a loop over a loader adds to the
    list or count only for some samples. Each process has different samples, so the condition may differ, too.

    ## Why is this bad?
    A collective call waits until all processes of the group make it. The program hangs until the timeout of the process
    group, minutes later. It may also pair the call with another one and mix up the data.

    ## Example
    ```python
    import lightning as L

    def save(trainer: L.Trainer, path):
        if trainer.is_global_zero:
            trainer.save_checkpoint(path)
    ```

    Use instead:
    ```python
    import lightning as L

    def save(trainer: L.Trainer, path):
        trainer.save_checkpoint(path)
    ```

    ## What verify shows
    `torchlint verify` confirms the finding if the ranks make different calls, or wait for each other forever. It
    refutes the finding if all ranks made every call on the line.

    ## References
    - [torch.distributed: collective functions](https://docs.pytorch.org/docs/stable/distributed.html#collective-functions)
    """

    code = "TL615"
    category = Category.CORRECTNESS
    triggers = (
        (
            b"get_rank",
            b"RANK",
            b"rank",
            b"is_global_zero",
            b"is_main_process",
            b"is_local_main_process",
            b"all_reduce",
            b"all_gather",
        ),
        (b"distributed", b"deepspeed", b"save_checkpoint", b"accelerat"),
    )

    def ask(self) -> Iterator[OneRank | OneShare]:
        known = self.model.definitions
        for branch in [] if self.model.is_test else self.model.tree.of_type(ast.If):
            if (call := _of_framework(branch)) is not None:
                called = python_ast.dotted(call.func)
                yield OneRank(python_ast.site_of(call), python_ast.site_of(branch.test), called, is_sure=True)
            if not ranks.asks(branch.test, known):
                yield from self._with_data(branch)
                continue
            other = {python_ast.dotted(call.func) for call in _calls(branch.orelse)}
            body = branch.body
            if not branch.orelse and isinstance(branch.body[-1], ast.Return):
                other = {python_ast.dotted(call.func) for call in _calls(branch.body)}
                body = [item for item in self.model.tree.after(branch) if isinstance(item, ast.stmt)]
            for call in _calls(body):
                called = python_ast.dotted(call.func)
                if self._waits(call) and called not in other and not self._has_partner(called, branch):
                    yield OneRank(python_ast.site_of(call), python_ast.site_of(branch.test), called)
                    break

    def _with_data(self, branch: ast.If) -> Iterator[OneShare]:
        """The collective calls in a branch that asks whether a loop has found samples of one kind."""
        counted = shares.counted(branch.test)
        growth = shares.growth(counted, branch, self.model.definitions) if counted else None
        other = {python_ast.dotted(call.func) for call in _calls(branch.orelse)}
        for call in _calls(branch.body) if growth is not None else ():
            called = python_ast.dotted(call.func)
            method = written.only_method(call.func, self.model.definitions)
            is_waiting = self._waits(call) or (method is not None and self._waits_in(method, 1))
            if growth is not None and is_waiting and called not in other:
                site, test, added = map(python_ast.site_of, (call, branch.test, growth))
                yield OneShare(site, test, added, called, counted)
                return

    def _waits(self, call: ast.Call, depth: int = 2) -> bool:
        """Whether all processes must make a call, also because its function makes a collective call."""
        if self._is_collective(call):
            return True
        function = names.function(call.func, self.model.definitions) if depth else None
        return function is not None and self._waits_in(function, depth)

    def _waits_in(self, function: FunctionInfo, depth: int) -> bool:
        """Whether each call of a function makes a collective call."""
        if not isinstance(function.node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return False
        plain: list[ast.stmt] = []
        for statement in function.node.body:
            if isinstance(statement, ast.If) and not _is_guard(statement):
                break
            plain.append(statement)
        nested = (ast.If, ast.IfExp, ast.Try, ast.For, ast.While, *python_ast.SCOPES)
        nodes = (
            node for item in plain if not isinstance(item, nested) for node in python_ast.walk_outside(item, nested)
        )
        return any(isinstance(node, ast.Call) and self._waits(node, depth - 1) for node in nodes)

    def _is_collective(self, call: ast.Call) -> bool:
        """Whether all processes must make a call. Excludes calls with a group and calls whose branch exits."""
        name = names.imported(call.func, self.model.definitions)
        if name.startswith("torch.distributed.") and name.rpartition(".")[2] in _COLLECTIVES:
            return not any(item.arg in ("group", None) for item in call.keywords)
        method = python_ast.called_name(call)
        return method in _OF_ENGINES and isinstance(call.func, ast.Attribute) and self._is_engine(call.func.value)

    def _is_engine(self, owner: ast.expr) -> bool:
        name = python_ast.dotted(owner)
        for node in self.model.tree.of_type(ast.Assign):
            if isinstance(node.value, ast.Call) and self.model.definitions.named(node.value.func) in _MAKING_ENGINES:
                target = node.targets[0]
                first = target.elts[0] if isinstance(target, ast.Tuple) else target
                if name and python_ast.dotted(first) == name:
                    return True
        return False

    def _has_partner(self, called: str, branch: ast.If) -> bool:
        """Whether another branch on the rank in the same function makes the same call."""
        function = self.model.tree.scope_around(branch)
        others = (node for node in names.own_nodes(function) if isinstance(node, ast.If) and node is not branch)
        return any(
            python_ast.dotted(call.func) == called
            for other in others
            if any(isinstance(item, (ast.Name, ast.Call)) for item in python_ast.walk(other.test))
            for call in _calls([*other.body, *other.orelse])
            if branch not in python_ast.walk(other) and other not in python_ast.walk(branch)
        )

    def report_OneShare(self, found: OneShare) -> None:
        self.report(
            found.site,
            f"only processes whose data add to `{found.counted}` call `{found.called}`: it waits for the others",
            related=[
                (found.condition, "the condition on the data is here"),
                (found.growth, "only some samples add to it"),
            ],
            help="let all processes make the call, also those without such data",
            confidence=Confidence.MEDIUM,
        )

    def report_OneRank(self, found: OneRank) -> None:
        self.report(
            found.site,
            f"only some processes call `{found.called}`: it waits for the others, and the program hangs",
            related=[(found.condition, "the condition on the rank is here")],
            help="let all processes make the call",
            confidence=Confidence.HIGH if found.is_sure else Confidence.LOW,
        )


def _of_framework(branch: ast.If) -> ast.Call | None:
    """The call in a branch on one process of a trainer or accelerator for which that object's processes wait."""
    test = branch.test
    if not isinstance(test, ast.Attribute) or test.attr not in _OF_FRAMEWORKS:
        return None
    owner = python_ast.dotted(test.value)
    waiting = {f"{owner}.{name}" for name in _OF_FRAMEWORKS[test.attr]} if owner else set()
    others = {python_ast.dotted(call.func) for call in _calls(branch.orelse)}
    return next((call for call in _calls(branch.body) if python_ast.dotted(call.func) in waiting - others), None)


def _calls(statements: list[ast.stmt]) -> list[ast.Call]:
    """The calls in statements, except those in functions that the statements define."""
    return [
        node for statement in statements for node in (statement, *names.own_nodes(statement))
        if isinstance(node, ast.Call)
    ]  # fmt: skip


def _is_guard(branch: ast.If) -> bool:
    """Whether a branch only ends a function that is not called by several processes."""
    words = {item.id for item in python_ast.walk(branch.test) if isinstance(item, ast.Name)}
    words |= {item.attr for item in python_ast.walk(branch.test) if isinstance(item, ast.Attribute)}
    is_alone = bool(words & {"world_size", "get_world_size", "is_initialized", "is_available"})
    return is_alone and isinstance(branch.body[-1], ast.Return) and not branch.orelse
