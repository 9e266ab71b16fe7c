"""Resumes that restore only a part of the state of a training."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import definitions
from torchlint.model.queries import refused_checkpoints, resumes
from torchlint.pytorch import naming
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

    from ._forgotten_entries import Forgotten, ForgottenRecord, Overwritten, Restarted, Unread

_KINDS = {"scheduler": LazyPattern(r"(?i)sched|(^|_)lr_"), "scaler": LazyPattern(r"(?i)scaler")}
"""Names of objects with a state that belong to an optimizer."""
_CLOSED = frozenset({"ReduceLROnPlateau", "ExponentialLR", "GradScaler"})
"""Schedulers whose state matters little: the learning rate is in the state of the optimizer."""
_STEPS = "torch.optim.lr_scheduler.StepLR"

_RESTORING = (b"load_state_dict", b"last_epoch")
"""Words of code that may restore a scheduler."""


class LeftOut(NamedTuple):
    """The optimizer is restored at `site` but `name` is not, although `use` saves it or steps it."""

    site: Site
    name: str
    use: Site
    is_saved: bool


class IncompleteResume(Rule):
    """A resume restores the model or optimizer but not the rest of its checkpoint.

    ## What it does
    Finds files that load the state of an optimizer and save the state of a scheduler or a `GradScaler`, but never load
    the saved state or read its entry in the checkpoint. Also finds functions and classes that restore the optimizer and
    the epoch, and then step a PyTorch scheduler that starts over. The code creates this scheduler itself or receives a
    new one in `__init__`.

    Also finds files that load a model and continue at the checkpoint's epoch, where nothing reads the saved state of
    the optimizer.

    Also finds code that restores the optimizer and starts the loop over epochs from the beginning, where nothing reads
    the saved epoch, or where the code only prints it.

    Also finds files that save the best score and continue at the checkpoint's epoch, where nothing reads the saved
    score. The first score after the resume then counts as the best, and its weights replace the best ones. The same
    where a statement behind the resume sets the restored score or epoch back to a number before any code uses it.

    Not reported if `last_epoch` is set, if the keys of the loaded states are computed, or if `torch.load` refuses the
    checkpoint (see `unloadable-checkpoint`).

    ## Why is this bad?
    After a resume, the schedule starts over. The warm-up runs again, or the learning rate jumps up and decays late.
    Without its state, Adam's moments start from zero. The loss curve has a kink at each restart, and the checkpoint
    stores a state that nothing reads.

    ## Example
    ```python
    import torch

    def save(optimizer, scheduler, path):
        torch.save({"optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict()}, path)

    def resume(optimizer, scheduler, path):
        checkpoint = torch.load(path)
        optimizer.load_state_dict(checkpoint["optimizer"])
    ```

    Use instead:
    ```python
    import torch

    def save(optimizer, scheduler, path):
        torch.save({"optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict()}, path)

    def resume(optimizer, scheduler, path):
        checkpoint = torch.load(path)
        optimizer.load_state_dict(checkpoint["optimizer"])
        scheduler.load_state_dict(checkpoint["scheduler"])
    ```
    """

    code = "TL329"
    category = Category.SUSPICIOUS
    triggers = ((b"load_state_dict",), (b"state_dict",))

    def ask(self) -> Iterator[LeftOut | Forgotten | ForgottenRecord | Overwritten | Restarted | Unread]:
        if self.model.is_test or refused_checkpoints.RefusedCheckpoints(self.model).has_only_refused():
            return
        from ._forgotten_entries import ForgottenOptimizers, ForgottenRecords, OverwrittenEntries, RestartedCounts

        yield from RestartedCounts(self.model).all()
        yield from RestartedCounts(self.model).unread()
        yield from ForgottenOptimizers(self.model).all()
        yield from ForgottenRecords(self.model).all()
        yield from OverwrittenEntries(self.model).all()
        loads, saved = self.model.provenance.states.loads, self.model.provenance.states.saved
        is_written_out = all(isinstance(owner, (ast.Name, ast.Attribute)) for _, owner in loads)
        restored = [call for call, owner in loads if naming.looks_like_optimizer(python_ast.last_name(owner))]
        is_saved = any(naming.looks_like_optimizer(python_ast.last_name(item)) for item in saved)
        if not is_written_out or not restored or not is_saved:
            return
        for kind, words in _KINDS.items():
            if self._is_restored(words):
                continue
            left_out = next((item for item in saved if words.search(python_ast.last_name(item))), None)
            if left_out is not None:
                yield LeftOut(
                    python_ast.site_of(restored[0]),
                    self.model.tree.code(left_out),
                    python_ast.site_of(left_out),
                    True,
                )
            elif kind == "scheduler":
                stepped = [found for call in restored for found in self._stepped(call)]
                yield from {found.use: found for found in reversed(stepped)}.values()

    def _is_restored(self, words: LazyPattern[str]) -> bool:
        """Whether this file loads a state of this kind, or any file reads its entry."""
        for call, owner in self.model.provenance.states.loads:
            if words.search(python_ast.last_name(owner)) or words.search(self.model.tree.code(call.args[0])):
                return True
        loops = {item.id for loop in self.model.tree.of_type(ast.For) for item in python_ast.walk(loop.target)
                 if isinstance(item, ast.Name)}  # fmt: skip
        if any(isinstance(owner, ast.Name) and owner.id in loops for _, owner in self.model.provenance.states.loads):
            return True
        texts = (node for node in self.model.tree.of_type(ast.Constant) if isinstance(node.value, str))
        keys = {node.value for node in texts if words.search(node.value) and node.value.isidentifier()}
        return any(self.model.reads_entry(key) for key in keys) or "last_epoch" in self.model.tree.source.text

    def _stepped(self, load: ast.Call) -> Iterator[LeftOut]:
        """Schedulers that step in the function or class of a load, and start from their beginning there."""
        method = self.model.definitions.method_around(load)
        if method is None or not self._restores_counter(method.node):
            return
        if any(self._begins_anew(owner) for _, owner in self.model.provenance.states.loads):
            return  # a schedule by another name is restored
        region = method.owner.node if method.owner is not None else method.node
        callers = self.model.provenance.states.callers(method.name)
        steps = [
            call
            for call in (node for item in (region, *callers) for node in python_ast.walk(item))
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "step"
            if self._begins_anew(call.func.value) and not call.args and not self._is_made_before_each(call)
        ]
        if steps and not any(resumes.is_replayed(call, self.model.tree) for call in steps):
            name = self.model.tree.code(steps[0].func).removesuffix(".step")
            yield LeftOut(python_ast.site_of(load), name, python_ast.site_of(steps[0]), False)

    def _restores_counter(self, function: ast.AST) -> bool:
        """Whether a function reads the epoch or step of a checkpoint, to continue training from there."""
        reads = (node for node in python_ast.walk(function) if isinstance(node, ast.Subscript))
        keys = (node.slice for node in reads if isinstance(node.ctx, ast.Load))
        return any(isinstance(key, ast.Constant) and resumes.COUNTERS.search(str(key.value)) for key in keys)

    def _begins_anew(self, scheduler: ast.expr) -> bool:
        """Whether a scheduler comes from a class of PyTorch, or one that inherits from it, and its state matters."""
        made = self.model.provenance.created(scheduler)
        if made is not None:
            return self._is_new(made, self.model.definitions)
        return self._is_given_new(scheduler) if isinstance(scheduler, ast.Attribute) else False

    def _is_given_new(self, scheduler: ast.Attribute) -> bool:
        """Whether all code that makes the object passes a new scheduler to it, and loads no state itself."""
        method = self.model.definitions.method_around(scheduler)
        if method is None or method.owner is None:
            return False
        name = method.owner.name
        files = list(self.model.importers(name, (name.encode(),)))
        if any(word in file.tree.source.code for file in files for word in _RESTORING):
            return False
        trees = (self.model.tree, *(file.tree for file in files))
        if any(_only_steps(loop) for tree in trees for loop in tree.of_type(*python_ast.LOOPS)):
            return False
        given = self.model.provenance.given_by_callers(scheduler, files)
        return bool(given) and all(self._is_new(made, file) for made, file in given)

    def _is_new(self, made: ast.expr, file: definitions.Definitions) -> bool:
        name = file.named(made.func) if isinstance(made, ast.Call) else ""
        others = self.model.definitions.others
        info = file.defined(name) or (others.anywhere(name, file) if others is not None and name else None)
        bases = info.ancestors() if isinstance(info, definitions.ClassInfo) else [name]
        schedules = [item for item in bases if isinstance(item, str) and item.startswith("torch.optim.lr_scheduler.")]
        if isinstance(made, ast.Call) and schedules == [_STEPS] and _is_every_step(made):
            return False
        return bool(schedules) and all(item.rpartition(".")[2] not in _CLOSED for item in schedules)

    def _is_made_before_each(self, call: ast.Call) -> bool:
        """Whether each iteration makes its scheduler, for the place that it computes, and steps it once."""
        assert isinstance(call.func, ast.Attribute)
        made = self.model.provenance.created(call.func.value)
        loop = self.model.tree.loop_around(call)
        return made is not None and loop is not None and loop in self.model.tree.ancestors(made)

    def report_Restarted(self, found: Restarted) -> None:
        self.report(
            found.loop,
            f"the resumed training starts over here: no loop continues at `{found.name}`",
            related=[(found.read, "the epoch of the checkpoint is read here")],
            help=f"start the loop at `{found.name}`",
        )

    def report_Unread(self, found: Unread) -> None:
        self.report(
            found.loop,
            f"the resumed training starts over here: nothing reads the entry {found.key!r} of the checkpoint",
            related=[(found.load, "the optimizer is restored here"), (found.saved, "the epoch is saved here")],
            help="start the loop behind the saved epoch",
        )

    def report_Overwritten(self, found: Overwritten) -> None:
        self.report(
            found.site,
            f"this overwrites `{found.name}`, which the resume has restored: it starts over in any case",
            related=[(found.read, "the entry of the checkpoint is read here")],
            help="set it before the resume",
        )

    def report_Forgotten(self, found: Forgotten) -> None:
        self.report(
            found.site,
            f"the model and its epoch are restored but `{found.name}` is not: its state is saved but never loaded",
            related=[(found.saved, "the state is saved here"), (found.counter, "training continues from here")],
            help=f"load the state of `{found.name}` too",
        )

    def report_ForgottenRecord(self, found: ForgottenRecord) -> None:
        self.report(
            found.site,
            f"the training continues but `{found.name}` starts over: the next score counts as the best one",
            related=[(found.saved, "the best score is saved here"), (found.start, "it starts over here")],
            help=f"restore `{found.name}` too",
        )

    def report_LeftOut(self, found: LeftOut) -> None:
        what = "its state is saved but never loaded" if found.is_saved else "the schedule starts over"
        self.report(
            found.site,
            f"the optimizer is restored but `{found.name}` is not: {what}",
            related=[(found.use, "the state is saved here" if found.is_saved else "it steps here")],
            help=f"save and load the state of `{found.name}` too",
        )


def _is_every_step(made: ast.Call) -> bool:
    """Whether a `StepLR` multiplies the learning rate in each step, so that its position does not matter."""
    named = (item.value for item in made.keywords if item.arg == "step_size")
    size = next(named, made.args[1] if len(made.args) > 1 else None)
    return isinstance(size, ast.Constant) and size.value == 1


def _only_steps(loop: ast.For | ast.AsyncFor | ast.While) -> bool:
    """Whether a loop only steps an object, as code does that restores the position of a scheduler."""
    only = loop.body[0]
    call = only.value if len(loop.body) == 1 and isinstance(only, ast.Expr) else None
    return isinstance(call, ast.Call) and python_ast.called_name(call) == "step"
