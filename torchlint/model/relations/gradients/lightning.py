"""Hooks of Lightning modules without fresh gradients: before the backward pass, or after the step."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint.model.definitions import ClassInfo
from torchlint.model.events import Backward, Clip, Step
from torchlint.model.program import Program
from torchlint.syntax.python_ast import walk

_BEFORE = frozenset({"on_train_batch_start", "training_step", "on_before_zero_grad", "on_before_backward"})
_AFTER = frozenset({"on_train_batch_end"})
_KNOWN_BASES = ("torch.", "abc.", "builtins.", "typing.")


class ClipInHook(NamedTuple):
    """`clip` is in a hook that, by its name, Lightning runs before the backward pass, or after the step."""

    clip: Clip
    hook: str
    is_after: bool


def clips_in_hooks(program: Program) -> Iterator[ClipInHook]:
    """The clippings without fresh gradients, because Lightning itself runs backward and step elsewhere."""
    for trace in program.traces:
        hook = trace.root
        if hook is None or hook.owner is None or hook.name not in _BEFORE | _AFTER:
            continue
        if not trace.of_kinds(Backward, Step) and _optimizes_automatically(hook.owner):
            yield from (ClipInHook(clip, hook.name, hook.name in _AFTER) for clip in trace.of(Clip))


def _optimizes_automatically(info: ClassInfo) -> bool:
    """Whether Lightning surely trains a module automatically: all its bases are known, and none says otherwise."""
    ancestors = list(info.ancestors())
    unknown = [item for item in ancestors if isinstance(item, str) and not item.startswith(_KNOWN_BASES)]
    if not unknown or not all(item.rpartition(".")[2] == "LightningModule" for item in unknown):
        return False
    return not any(_names_optimization(item.node) for item in ancestors if isinstance(item, ClassInfo))


def _names_optimization(node: ast.AST) -> bool:
    """Whether code mentions `automatic_optimization`, as an attribute, a name or a method."""
    return any(
        "automatic_optimization" in (getattr(item, "attr", ""), getattr(item, "id", ""), getattr(item, "name", ""))
        for item in walk(node)
    )
