"""Module classes that surely have no parameters, such as most losses and wrappers of formulas. Buffers of others."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from weakref import WeakKeyDictionary

from torchlint.model.definitions import ClassInfo
from torchlint.model.values import Unknown, class_of, resolved
from torchlint.pytorch import naming
from torchlint.pytorch.autograd_table import MODULES_WITHOUT_PARAMETERS
from torchlint.syntax.python_ast import called_name, dotted, is_literal, walk

_BASES = frozenset(
    "object torch.nn.Module torch.nn.modules.Module torch.nn.modules.module.Module torch.nn.modules.loss._Loss "
    "torch.nn.modules.loss._WeightedLoss".split()
)
_KEEPING = frozenset(
    "register_parameter add_module register_module setattr append extend insert update setdefault".split()
)
"""The ways to register a module or a parameter without an assignment."""
_AFFINE = 4
"""The number of positional arguments from which one of them is `affine`."""
_PARAMETERLESS: WeakKeyDictionary[ClassInfo, bool] = WeakKeyDictionary()
_BUFFERS: WeakKeyDictionary[ClassInfo, frozenset[str]] = WeakKeyDictionary()
"""The cached buffers by class; a weak key, because a class keeps its whole file in memory."""


def is_parameterless(info: ClassInfo) -> bool:
    """Whether objects of a class hold only numbers, texts, buffers and modules of this kind."""
    known = _PARAMETERLESS.get(info)
    if known is None:
        _PARAMETERLESS[info] = False  # of a class that creates one of its own
        known = _PARAMETERLESS[info] = all(
            _keeps_nothing(item) if isinstance(item, ClassInfo) else item in _BASES for item in info.ancestors()
        )
    return known


def _keeps_nothing(info: ClassInfo) -> bool:
    nodes = list(walk(info.node))
    calls = (node for node in nodes if isinstance(node, ast.Call) and not _is_without_weights(node))
    return all(_makes_nothing(call, info) for call in calls) and all(_is_plain(value, info) for value in _kept(nodes))


def _makes_nothing(call: ast.Call, info: ClassInfo) -> bool:
    """Whether a call, by its name, creates no object with parameters and registers none."""
    own, name = info.definitions.defined(dotted(call.func)), called_name(call)
    if isinstance(own, ClassInfo):
        return is_parameterless(own)
    is_known = name in MODULES_WITHOUT_PARAMETERS or hasattr(builtins, name)
    return name not in _KEEPING and (is_known or not naming.is_class_name(name))


def _kept(nodes: list[ast.AST]) -> Iterator[ast.expr]:
    """The values assigned to attributes."""
    for node in nodes:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(item, ast.Attribute) for target in targets for item in walk(target)):
                yield node.value


def _is_plain(node: ast.AST, info: ClassInfo) -> bool:
    """Whether a value is surely no module with parameters, by its callee and by names."""
    if isinstance(node, (ast.Name, ast.Attribute)):
        return not naming.MODULE.search(dotted(node).rpartition(".")[2])
    if isinstance(node, ast.Call):
        return _gives_plain(node, info) and all(_is_plain(item, info) for item in node.args)
    if isinstance(node, (ast.Lambda, ast.ListComp, ast.DictComp, ast.SetComp, ast.GeneratorExp, ast.Await)):
        return False
    return all(_is_plain(item, info) for item in ast.iter_child_nodes(node) if isinstance(item, ast.expr))


def _gives_plain(call: ast.Call, info: ClassInfo) -> bool:
    """Whether a call gives a number, a text, a new tensor, or a PyTorch module without parameters."""
    if isinstance(call.func, ast.Name) and hasattr(builtins, call.func.id):
        return True
    name, own = info.definitions.named(call.func), info.definitions.defined(dotted(call.func))
    if isinstance(own, ClassInfo):
        return is_parameterless(own)
    if name.startswith(("torch.nn.", "torchvision.")):
        return _is_without_weights(call) or name.rpartition(".")[2] in MODULES_WITHOUT_PARAMETERS
    return name.startswith(("torch.", "math.", "numpy."))


def _is_without_weights(call: ast.Call) -> bool:
    """Whether a call builds a norm without weights: by its arguments, or by the class's default."""
    told = [item.value for item in call.keywords if item.arg in ("affine", "elementwise_affine")]
    by_default = not told and len(call.args) < _AFFINE and called_name(call).startswith("InstanceNorm")
    return by_default or any(is_literal(value, False) for value in told)


def is_buffer(attribute: Unknown) -> bool:
    """Whether an attribute is a buffer that `register_buffer` of its class sets."""
    info = class_of(resolved(attribute.parents[0])) if attribute.parents else None
    return info is not None and attribute.label in _buffers(info)


def _buffers(info: ClassInfo) -> frozenset[str]:
    """The names of the buffers that a class registers."""
    known = _BUFFERS.get(info)
    if known is None:
        known = _BUFFERS[info] = frozenset(_registered(info))
    return known


def _registered(info: ClassInfo) -> Iterator[str]:
    calls = (node for node in walk(info.node) if isinstance(node, ast.Call) and called_name(node) == "register_buffer")
    names = (call.args[0].value for call in calls if call.args and isinstance(call.args[0], ast.Constant))
    return (name for name in names if isinstance(name, str))
