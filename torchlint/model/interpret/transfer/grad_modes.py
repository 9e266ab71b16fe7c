"""The grad mode that decorators give a function's body."""

from __future__ import annotations

import ast

from torchlint.model.definitions import FunctionInfo
from torchlint.model.state import State
from torchlint.model.values import External, inputs_of
from torchlint.model.wrappers import wrapped_mode
from torchlint.pytorch import naming
from torchlint.pytorch.api import GRAD_MODES, SET_GRAD_MODE
from torchlint.pytorch.effects import GradMode
from torchlint.syntax.python_ast import arguments, dotted, is_literal


def decorated_mode(info: FunctionInfo, state: State) -> GradMode | None:
    """The grad mode that decorators give a function's body."""
    for decorator in info.decorators:
        call = decorator if isinstance(decorator, ast.Call) else None
        text = dotted(call.func if call is not None else decorator)
        own = info.definitions.defined(text)
        if isinstance(own, FunctionInfo):
            mode = wrapped_mode(own)
            if mode is not None:
                return mode
            continue
        name = _alias(text, info, state) or info.definitions.qualified(text, info.node)
        given = [] if call is None else arguments(call)
        argument = given[0] if given else None
        if name in SET_GRAD_MODE:
            return _asked_for(argument, GradMode.ON, GradMode.OFF)
        if name in GRAD_MODES:
            mode = GRAD_MODES[name]
            return mode if argument is None else _asked_for(argument, mode, GradMode.ON)
        if naming.SWITCHES_GRADIENTS.search(name.rpartition(".")[2]):
            return GradMode.UNKNOWN
    return None


def _alias(name: str, info: FunctionInfo, state: State) -> str:
    """The name in PyTorch of an alias like `ctx = torch.no_grad`: one of the possible names."""
    known = state.frame_of(info.definitions).locals.get(name)
    meant = (item.name for item in inputs_of(known) if isinstance(item, External)) if known is not None else ()
    return next((name for name in meant if name in GRAD_MODES), "")


def _asked_for(argument: ast.expr | None, if_true: GradMode, if_false: GradMode) -> GradMode:
    """The grad mode that a decorator's argument selects."""
    if argument is None:
        return GradMode.UNKNOWN
    return if_true if is_literal(argument, True) else if_false if is_literal(argument, False) else GradMode.UNKNOWN
