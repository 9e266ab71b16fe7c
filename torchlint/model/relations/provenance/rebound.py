"""Optimized tensors and networks whose names are bound to copies or wrappers after the optimizer's creation."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint.lazy_pattern import LazyPattern
from torchlint.model.definitions import Definitions
from torchlint.model.queries import names
from torchlint.model.relations.provenance.kept import KeptOptimizers
from torchlint.pytorch import naming
from torchlint.syntax.python_ast import LOOPS, arguments, called_name, dotted, walk, written_alike

_MOVES = frozenset({"to", "cuda", "xpu", "npu", "half", "double", "bfloat16"})
_COPIES = _MOVES | frozenset({"clamp", "clip", "detach", "clone"})
"""Methods of a tensor that give another tensor."""
_WRAPPERS = frozenset(
    {
        "torch.distributed.fsdp.FullyShardedDataParallel",
        "torch.distributed.fsdp.fully_shard",
        "torch.distributed._composable.fsdp.fully_shard",
        "peft.get_peft_model",
    }
)
"""Calls that put new parameters in the place of a network's own."""
_KEEPING = ("use_orig_params", None)
"""Arguments of FSDP that may keep the parameters."""
_STAYS = LazyPattern(r"cpu|float32|torch\.float$")
"""The current device or type of a new tensor."""


class Rebound(NamedTuple):
    """`statement` gives `place` other parameters, while `optimizer` holds the ones before."""

    statement: ast.stmt
    place: ast.expr
    optimizer: ast.Call
    is_network: bool


class Rebounds:
    """Answers about optimizers whose parameters a later statement replaces, by the order of a file's statements."""

    def __init__(self, definitions: Definitions) -> None:
        self.definitions = definitions
        self.tree = definitions.tree
        self.kept = KeptOptimizers(definitions)

    def all(self) -> Iterator[Rebound]:
        """The statements that replace what an optimizer holds, where that optimizer steps later."""
        for call in self.tree.of_type(ast.Call):
            if not naming.is_optimizer_class(called_name(call)) or not call.args:
                continue
            made = self.tree.parent(call)
            target = made.targets[0] if isinstance(made, ast.Assign) and len(made.targets) == 1 else None
            if isinstance(made, ast.Assign) and target is not None and dotted(target):
                for place, is_network in _held(call.args[0], self.definitions):
                    for statement in self._replacing(made, place, is_network):
                        if self._is_stepped(made, statement, target, place):
                            yield Rebound(statement, place, call, is_network)
                    for statement in self.kept.replacing(made, place) if is_network else ():
                        yield Rebound(statement, place, call, is_network)

    def _replacing(self, made: ast.Assign, place: ast.expr, is_network: bool) -> Iterator[ast.stmt]:
        """The first statement after the creation of an optimizer that binds a place anew, if it derives from it."""
        function = self.definitions.function_around(made)
        scope = function.node if function is not None else self.tree.module
        others = (item for item in walk(scope) if isinstance(item, ast.stmt) and item.lineno > made.lineno)
        later = next((item for item in others if self._binds(item, place, is_network)), None)
        if later is None:
            later = self._in_other_method(made, place, is_network)
        elif self.definitions.function_around(later) is not function or not self._follows(later, made):
            return
        if later is not None and (is_network or self._derives(later, place)) and not self._stays(later, place, made):
            yield later

    def _follows(self, statement: ast.stmt, made: ast.Assign) -> bool:
        """Whether the block that creates an optimizer contains a statement, perhaps in a block of its own."""
        around = (item for item in (statement, *self.tree.ancestors(statement)) if isinstance(item, ast.stmt))
        return any(made in self.tree.block(item) for item in around)

    def _in_other_method(self, made: ast.Assign, place: ast.expr, is_network: bool) -> ast.stmt | None:
        """The only statement of a class that moves or wraps an attribute, after `__init__` created the optimizer."""
        method = self.definitions.method_around(made)
        if method is None or method.owner is None or method.name != "__init__" or not isinstance(place, ast.Attribute):
            return None
        others = [item for item in method.owner.methods.values() if item is not method]
        within = (node for item in others for node in walk(item.node) if isinstance(node, ast.stmt))
        later = [item for item in within if self._binds(item, place, is_network)]
        if len(later) != 1 or self._is_rebuilt(later[0], made) or not (is_network or _is_moved(later[0])):
            return None
        return later[0]

    def _binds(self, statement: ast.stmt, place: ast.expr, is_network: bool) -> bool:
        """Whether a statement binds a place, or for a network wraps it."""
        if not is_network:
            targets = statement.targets if isinstance(statement, ast.Assign) else []
            return any(written_alike(item, place) for item in targets)
        call = statement.value if isinstance(statement, (ast.Assign, ast.Expr)) else None
        is_wrapper = isinstance(call, ast.Call) and self.definitions.named(call.func) in _WRAPPERS
        if not is_wrapper or not isinstance(call, ast.Call) or any(item.arg in _KEEPING for item in call.keywords):
            return False
        return any(written_alike(item, place) for item in call.args[:1])

    def _derives(self, statement: ast.stmt, place: ast.expr) -> bool:
        """Whether a statement binds a place to a copy of itself: `z = z.to(device)`, `z = torch.clamp(z, 0, 1)`."""
        value = statement.value if isinstance(statement, ast.Assign) else None
        depth = 0
        while isinstance(value, ast.Call) and called_name(value) in _COPIES:
            is_function = self.definitions.named(value.func).startswith("torch.")
            value = next(iter(value.args), None) if is_function else getattr(value.func, "value", None)
            depth += 1
        return depth > 0 and value is not None and written_alike(value, place)

    def _stays(self, statement: ast.stmt, place: ast.expr, made: ast.Assign) -> bool:
        """Whether a move may have no effect: to the CPU, or of a tensor that may be on the device already."""
        if not _is_moved(statement):
            return False
        calls = [item for item in walk(statement) if isinstance(item, ast.Call)]
        if any(_STAYS.search(ast.unparse(item)) for call in calls for item in arguments(call)):
            return True
        stores = [item for item in self.tree.of_type(ast.Assign) if item.lineno < made.lineno]
        before = [item for item in stores if any(written_alike(target, place) for target in item.targets)]
        return not before or any(
            word in ast.unparse(item.value) for item in before for word in ("device", ".to(", "cuda", "_like", "load")
        )

    def _is_rebuilt(self, statement: ast.stmt, made: ast.Assign) -> bool:
        """Whether a method with a statement runs before an optimizer is made, or makes another optimizer."""
        method, function = self.definitions.function_around(statement), self.definitions.function_around(made)
        if method is None or function is None:
            return True
        calls = [item for item in walk(method.node) if isinstance(item, ast.Call)]
        before = (item for item in walk(function.node) if isinstance(item, ast.Call) and item.lineno < made.lineno)
        is_made = any(naming.is_optimizer_class(called_name(item)) for item in calls)
        return is_made or any(called_name(item) == method.name for item in before)

    def _is_stepped(self, made: ast.Assign, statement: ast.stmt, optimizer: ast.expr, place: ast.expr) -> bool:
        """Whether an optimizer steps after a statement, and the place is read there."""
        function = self.definitions.function_around(statement)
        scope: ast.AST = function.node if function is not None else self.tree.module
        is_attribute = isinstance(optimizer, ast.Attribute) and isinstance(place, ast.Attribute)
        loops = [item for item in self.tree.ancestors(statement) if isinstance(item, LOOPS)]
        loops = [item for item in loops if made not in walk(item)]
        after = [item for item in walk(scope) if getattr(item, "lineno", 0) > statement.lineno]
        regions = [*after, *(node for loop in loops for node in walk(loop))]
        method = self.definitions.method_around(made)
        owner = method.owner if method is not None and is_attribute else None
        others = owner.methods.values() if owner is not None else ()
        regions += [node for item in others if item is not method for node in walk(item.node)]
        calls = (item for item in regions if isinstance(item, ast.Call))
        makes = (naming.is_optimizer_class(called_name(item)) for item in calls)
        is_read = any(isinstance(item, ast.expr) and written_alike(item, place) for item in regions)
        return is_read and not any(makes) and any(_steps(item, optimizer) for item in regions)


def _is_moved(statement: ast.stmt) -> bool:
    value = statement.value if isinstance(statement, ast.Assign) else None
    return isinstance(value, ast.Call) and called_name(value) in _MOVES


def _steps(node: ast.AST, optimizer: ast.expr) -> bool:
    """`optimizer.step()` or `scaler.step(optimizer)`."""
    if not isinstance(node, ast.Call) or called_name(node) != "step" or not isinstance(node.func, ast.Attribute):
        return False
    return any(written_alike(item, optimizer) for item in (node.func.value, *node.args[:1]))


def _held(given: ast.expr, definitions: Definitions) -> Iterator[tuple[ast.expr, bool]]:
    """The tensors in the list that an optimizer receives, and the networks (True) whose `parameters()` it receives."""
    parts = [given]
    while parts:
        part = parts.pop()
        if isinstance(part, (ast.List, ast.Tuple)):
            yield from ((item, False) for item in part.elts if dotted(item))
            parts += [item for item in part.elts if not dotted(item)]
        elif isinstance(part, ast.BinOp):
            parts += [part.left, part.right]
        elif isinstance(part, ast.Starred):
            parts.append(part.value)
        elif isinstance(part, ast.Dict):
            pairs = zip(part.keys, part.values, strict=True)
            parts += [item for key, item in pairs if isinstance(key, ast.Constant) and key.value == "params"]
        elif isinstance(part, (ast.ListComp, ast.GeneratorExp)):
            parts.append(part.generators[0].iter)
        elif isinstance(part, ast.Name):
            value = names.only_value(part, definitions)
            parts += [value] if value is not None else []
        elif isinstance(part, ast.Call) and called_name(part) in ("list", "filter"):
            parts += part.args[-1:]
        elif isinstance(part, ast.Call) and called_name(part) == "parameters" and isinstance(part.func, ast.Attribute):
            yield part.func.value, True
