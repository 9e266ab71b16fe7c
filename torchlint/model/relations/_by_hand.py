"""Manual optimization: Lightning modules that go backward and step themselves, and must step their schedules too."""

from __future__ import annotations

import ast

from torchlint.model.definitions import ClassInfo
from torchlint.model.queries import torch_classes
from torchlint.pytorch import api
from torchlint.syntax.python_ast import FUNCTIONS, dotted, is_literal, walk

_AUTOMATIC = "automatic_optimization"


def idle_schedule(info: ClassInfo) -> ast.Call | None:
    """The scheduler that `configure_optimizers` of a module with manual optimization makes, where nothing steps it."""
    method = info.methods.get("configure_optimizers")
    if method is None or "training_step" not in info.methods or not _steps_by_hand(info):
        return None
    calls = (node for node in walk(method.node) if isinstance(node, ast.Call))
    made = next((call for call in calls if api.makes_scheduler(info.definitions.named(call.func))), None)
    return made if made is not None and not _may_be_stepped(info, method.node) else None


def _steps_by_hand(info: ClassInfo) -> bool:
    """Whether `__init__` surely switches Lightning's own optimization off, in a class all of whose bases are known."""
    if not torch_classes.is_lightning(info):
        return False
    init = info.methods.get("__init__")
    stored = [
        (node, target)
        for item in info.ancestors()
        if isinstance(item, ClassInfo)
        for node in walk(item.node)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Attribute) and target.attr == _AUTOMATIC
    ]
    is_off = len(stored) == 1 and is_literal(stored[0][0].value, False)
    body = init.node.body if init is not None and isinstance(init.node, FUNCTIONS) else []
    return is_off and stored[0][0] in body


def _may_be_stepped(info: ClassInfo, method: ast.AST) -> bool:
    """Whether a class or its file uses a scheduler, but where it is made: by its attribute, by name or by Lightning."""
    made = set(walk(method))
    kept = {item.attr for node in made for item in _targets(node, info)}
    files = {item.definitions for item in info.ancestors() if isinstance(item, ClassInfo)}
    nodes = (node for file in files for node in file.tree.of_type(ast.Attribute) if node not in made)
    return any(node.attr in kept or "lr_scheduler" in node.attr or _steps_schedule(node) for node in nodes)


def _targets(node: ast.AST, info: ClassInfo) -> list[ast.Attribute]:
    """The attributes to which a statement assigns a scheduler."""
    call = node.value if isinstance(node, ast.Assign) else None
    is_schedule = isinstance(call, ast.Call) and api.makes_scheduler(info.definitions.named(call.func))
    targets = node.targets if isinstance(node, ast.Assign) and is_schedule else []
    return [item for item in targets if isinstance(item, ast.Attribute)]


def _steps_schedule(node: ast.Attribute) -> bool:
    receiver = dotted(node.value).lower()
    return node.attr == "step" and ("sched" in receiver or "lr" in receiver or not receiver)
