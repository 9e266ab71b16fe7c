"""The PyTorch classes from which classes derive, also through classes of the repository."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.model.definitions import ClassInfo
from torchlint.pytorch import stateful_modules
from torchlint.syntax.python_ast import FUNCTIONS, dotted

_MODULE = frozenset({"LightningModule", "PreTrainedModel"})
"""Classes of other packages that are modules, by their last name."""
_KNOWN_BASES = ("torch.", "abc.", "builtins.", "typing.")


def is_module_class(info: ClassInfo) -> bool:
    """Whether objects of a class are surely modules."""
    bases = (item for item in info.ancestors() if isinstance(item, str))
    return any(base.startswith("torch.nn.") or base.rpartition(".")[2] in _MODULE for base in bases)


def is_lightning(info: ClassInfo) -> bool:
    """Whether a class derives from `LightningModule`, and from no other class that torchlint does not know."""
    unknown = [item for item in info.ancestors() if isinstance(item, str) and not item.startswith(_KNOWN_BASES)]
    return bool(unknown) and all(item.rpartition(".")[2] == "LightningModule" for item in unknown)


def owns_weights(info: ClassInfo, depth: int = 3) -> bool:
    """Whether objects of a module class surely own weights: `__init__` always sets an attribute to such a layer."""
    classes = [item for item in info.ancestors() if isinstance(item, ClassInfo)]
    return is_module_class(info) and any(_makes_weights(call, item, depth) for item in classes for call in _made(item))


def _made(info: ClassInfo) -> Iterator[ast.Call]:
    """The calls whose results `__init__` of a class always assigns to attributes, and the arguments of `Sequential`."""
    init = info.methods.get("__init__")
    for statement in init.node.body if init is not None and isinstance(init.node, FUNCTIONS) else ():
        targets = statement.targets if isinstance(statement, ast.Assign) else ()
        if isinstance(statement, ast.Assign) and all(dotted(item).startswith("self.") for item in targets):
            whole = [statement.value]
            for value in whole:
                if isinstance(value, ast.Call):
                    yield value
                    whole += value.args if info.definitions.named(value.func) == "torch.nn.Sequential" else ()


def _makes_weights(call: ast.Call, info: ClassInfo, depth: int) -> bool:
    name = info.definitions.named(call.func)
    own = info.definitions.defined(dotted(call.func))
    if isinstance(own, ClassInfo):
        return depth > 0 and owns_weights(own, depth - 1)
    return stateful_modules.may_own(name) and stateful_modules.owned(name.rpartition(".")[2], call) == "weights"
