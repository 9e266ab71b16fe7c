"""Files that try out their own untrained network."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchlint.lazy_pattern import LazyPattern
from torchlint.model import events, program, values
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint import Model

_LOADING = (b"load_state_dict", b"torch.load", b"load_from_checkpoint", b"load_weights", b"load_model", b"pretrained")
_PREPARING = LazyPattern(r"load|fit|train|learn|restore|resume|init")


def only_tries_out(model: Model, trace: program.Trace, module: values.Value) -> bool:
    """Whether a file runs its own network untrained: nothing has trained it, or loaded weights."""
    network = values.resolved(module)
    info = network.info if isinstance(network, values.Module) else None
    if trace.root is not None or info is None or info.definitions is not model.definitions:
        return False
    if any(word in model.tree.source.code for word in _LOADING) or trace.of_kinds(events.Backward, events.Step):
        return False
    given = (call for call in trace.of(events.Call) if network in map(values.resolved, call.value.parents))
    return all(_is_own_figure(call, network, model.tree.node(call.site)) for call in given)


def _is_own_figure(call: events.Call, network: values.Value, node: ast.AST) -> bool:
    """Whether the code calls a network's method that neither trains nor loads it, by name: `net.loss(batch)`."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    is_own = values.resolved(call.value.parents[0]) is network
    return is_own and not _PREPARING.search(python_ast.called_name(node))
