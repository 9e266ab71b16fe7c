"""Lightning modules: the losses they return, and hooks without fresh gradients.

Such hooks run before the backward pass or after the step, or while the gradients have the scale of mixed precision.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from typing import NamedTuple

from torchlint.model.definitions import ClassInfo, FunctionInfo
from torchlint.model.events import Backward, Clip, Returned, Step
from torchlint.model.program import Program, Trace
from torchlint.model.queries import torch_classes
from torchlint.model.values import Dict, Module, Plain, Value, resolved
from torchlint.syntax.python_ast import Site, called_name, walk
from torchlint.syntax.python_tree import PythonTree

_BEFORE = frozenset({"on_train_batch_start", "training_step", "on_before_zero_grad", "on_before_backward"})
_AFTER = frozenset({"on_train_batch_end"})
_SCALED = "on_after_backward"
"""The hook that runs before Lightning unscales the gradients."""
_STEPS = "optimizer_step"
"""The hook that receives the backward pass as a closure, and passes it to the step."""
_HALF = frozenset({16, "16", "16-mixed"})
"""The precisions for which Lightning scales the loss."""


class ClipInHook(NamedTuple):
    """`clip` is in a hook that, by its name, Lightning runs before the backward pass, or after the step.

    With `scaling`, it runs after the backward pass, but with gradients that still have a scale.
    """

    clip: Clip
    hook: str
    is_after: bool
    scaling: ast.expr | None = None
    """The precision for which Lightning scales the loss."""


def returned_losses(trace: Trace) -> Iterator[tuple[Value, Site]]:
    """The losses that a `training_step` returns to Lightning, which goes backward through them, and where."""
    step = trace.root
    if step is None or step.owner is None or step.name != "training_step" or not isinstance(trace.receiver, Module):
        return
    if trace.of_kinds(Backward, Step) or not _optimizes_automatically(step.owner):
        return
    for event in trace.of(Returned):
        value = resolved(event.value)
        loss = value.part("loss") if isinstance(value, Dict) else value
        if loss is not None and not isinstance(loss, Plain):
            yield loss, event.site


def clips_in_hooks(program: Program) -> Iterator[ClipInHook]:
    """The clippings without fresh gradients, because Lightning itself runs backward and step elsewhere."""
    scaling = _scaling(program)
    for trace in program.traces:
        hook = trace.root
        if hook is None or hook.owner is None or hook.name not in {*_BEFORE, *_AFTER, _SCALED, _STEPS}:
            continue
        if hook.name == _SCALED:
            if scaling is not None and _optimizes_automatically(hook.owner):
                yield from (ClipInHook(clip, hook.name, True, scaling) for clip in trace.of(Clip))
        elif hook.name == _STEPS:
            closed = _runs_closure(hook, program.tree)
            if closed is not None and _optimizes_automatically(hook.owner):
                clips = (clip for clip in trace.of(Clip) if _line(clip, program.tree) < closed.lineno)
                yield from (ClipInHook(clip, hook.name, False) for clip in clips)
        elif not trace.of_kinds(Backward, Step) and _optimizes_automatically(hook.owner):
            yield from (ClipInHook(clip, hook.name, hook.name in _AFTER) for clip in trace.of(Clip))


def _scaling(program: Program) -> ast.expr | None:
    """The argument `precision` of a trainer, if it makes Lightning scale the loss."""
    for call in program.nodes(ast.Call):
        given = [item.value for item in call.keywords if item.arg == "precision"]
        if given and called_name(call) == "Trainer" and isinstance(given[0], ast.Constant) and given[0].value in _HALF:
            return given[0]
    return None


def _runs_closure(hook: FunctionInfo, tree: PythonTree) -> ast.Call | None:
    """The first call in `optimizer_step` that runs the closure with the backward pass, or passes it on."""
    closures = [name for name in hook.parameters if "closure" in name]
    uses = (node for node in walk(hook.node) if isinstance(node, ast.Name) and node.id in closures)
    around = (item for node in uses for item in tree.ancestors(node) if isinstance(item, ast.Call))
    return min(around, key=lambda call: call.lineno, default=None)


def _line(clip: Clip, tree: PythonTree) -> float:
    node = tree.own_node(clip.site)
    return getattr(node, "lineno", math.inf)


def _optimizes_automatically(info: ClassInfo) -> bool:
    """Whether Lightning surely trains a module automatically: all its bases are known, and none says otherwise."""
    classes = (item for item in info.ancestors() if isinstance(item, ClassInfo))
    return torch_classes.is_lightning(info) and not any(_names_optimization(item.node) for item in classes)


def _names_optimization(node: ast.AST) -> bool:
    """Whether code mentions `automatic_optimization`, as an attribute, a name or a method."""
    return any(
        "automatic_optimization" in (getattr(item, "attr", ""), getattr(item, "id", ""), getattr(item, "name", ""))
        for item in walk(node)
    )
