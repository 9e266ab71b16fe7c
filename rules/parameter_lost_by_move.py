"""Parameters that are moved after their creation."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule, edits
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import names
from torchlint.pytorch import api, naming
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_MOVES = frozenset({"to", "cuda", "double", "half", "bfloat16", "xpu", "npu"})
_STAYS = LazyPattern(r"cpu|float32|torch\.float$|get_default_dtype")
"""The current device or type of a new tensor."""
_HANDING_ON = LazyPattern(r"_like$|^(?:as_tensor|asarray|load|from_dlpack)$")
"""Calls that create a tensor on the device of another one."""
_MADE = LazyPattern(rb"\bParameter\s*\(|\brequires_grad\s*=\s*True")
_MOVED = LazyPattern(rb"\s*\)?\s*\.\s*(to|cuda|double|half|bfloat16|xpu|npu)\s*\(")


class LostParameter(NamedTuple):
    """`move` copies the leaf created at `made`, so the attribute or variable `name` is not a leaf."""

    move: Site
    made: Site
    name: str
    is_parameter: bool


class ParameterLostByMove(Rule):
    """A parameter is moved after its creation, so the code stores a copy.

    ## What it does
    Finds `nn.Parameter(...).to(device)`, `.cuda()`, `.double()` and similar moves that a module stores as an
    attribute. Also finds `torch.zeros(..., requires_grad=True).to(device)` that an optimizer receives or whose
    `.grad` is read.

    ## Why is this bad?
    The tensor is never trained, or the optimizer refuses it. On a GPU, `.to(device)` returns a copy, which is not a
    parameter. The copy is missing from `parameters()` and the state dict, and its `.grad` stays None. On a CPU,
    `.to(device)` returns the parameter itself, so the bug appears only on a GPU.

    ## Example
    ```python
    import torch
    from torch import nn

    class Scale(nn.Module):
        def __init__(self, device):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(3)).to(device)
    ```

    Use instead:
    ```python
    import torch
    from torch import nn

    class Scale(nn.Module):
        def __init__(self, device):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(3).to(device))
    ```

    ## Fix safety
    The fix moves the tensor before it becomes a parameter. It is unsafe: the module and its state dict then have one
    more parameter.

    ## What verify shows
    `torchlint verify` checks the tensor that the line assigns. It confirms the finding if the tensor is not a leaf. It
    refutes the finding if it is a leaf.

    ## Known limits
    Not reported: parameters that the code builds from the method's arguments, or from a variable that it has
    reassigned, as in `x = f(x)`.

    ## References
    - [torch.Tensor.is_leaf](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.is_leaf.html): "b was created
      by the operation that cast a cpu Tensor into a cuda Tensor"
    """

    code = "TL311"
    category = Category.CORRECTNESS
    triggers = ((b"Parameter", b"requires_grad"), tuple(sorted(name.encode() for name in _MOVES)))

    @classmethod
    def may_fire(cls, code: bytes) -> bool:
        """Whether brackets around `requires_grad` or a parameter close, and a move follows."""
        return any(_is_moved(code, match) for match in _MADE.finditer(code))

    def ask(self) -> Iterator[LostParameter]:
        for statement in self.model.tree.of_type(ast.Assign, ast.AnnAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            move, made = statement.value, _moved(statement.value)
            if made is None or len(targets) != 1 or not isinstance(move, ast.Call) or self._stays(move, made):
                continue
            if self._is_kept_parameter(targets[0], made):
                yield LostParameter(python_ast.site_of(move), python_ast.site_of(made), ast.unparse(targets[0]), True)
            elif isinstance(targets[0], ast.Name) and self._is_leaf_in_use(targets[0], made):
                yield LostParameter(python_ast.site_of(move), python_ast.site_of(made), targets[0].id, False)

    def _stays(self, move: ast.Call, made: ast.Call) -> bool:
        """Whether a move has no effect, because the tensor is already there."""
        if any(_STAYS.search(ast.unparse(item)) for item in python_ast.arguments(move)):
            return True
        inside = [
            node for item in python_ast.arguments(made) for node in python_ast.walk(item) if isinstance(node, ast.Call)
        ]
        types = [item.value for call in (made, *inside) for item in call.keywords if item.arg == "dtype"]
        given = python_ast.arguments(move)
        if len(given) == 1 and any(python_ast.written_alike(given[0], own) for own in types):
            return True
        return any(item.arg in ("device", None) for call in (made, *inside) for item in call.keywords) or any(
            python_ast.called_name(call) in _MOVES for call in inside
        )

    def _is_kept_parameter(self, target: ast.expr, made: ast.Call) -> bool:
        """Whether a parameter is the only value of a module's attribute."""
        method = self.model.definitions.method_around(target)
        if self.model.definitions.named(made.func) not in api.PARAMETERS or method is None or method.owner is None:
            return False
        if not isinstance(target, ast.Attribute) or python_ast.dotted(target.value) not in method.parameters[:1]:
            return False
        data = _data(made)
        if data is None or not self.model.program.is_module_class(method.owner):
            return False
        if not self._is_made_here(data, method.node):
            return False
        others = (node for node in python_ast.walk(method.owner.node) if node is not target)
        stored = (node for node in others if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store))
        return not any(
            node.attr == target.attr
            and not self._is_none(node)
            and not names.are_alternatives(node, target, self.model.tree)
            for node in stored
        )

    def _is_made_here(self, data: ast.expr, function: ast.AST, seen: frozenset[str] = frozenset()) -> bool:
        """Whether a tensor certainly is new and on the CPU; a function argument may already be on the device."""
        if isinstance(data, ast.Name):
            values = self._bound(data.id, function) if data.id not in seen else []
            return bool(values) and all(self._is_made_here(item, function, seen | {data.id}) for item in values)
        if isinstance(data, ast.Subscript):
            return self._is_made_here(data.value, function, seen)
        if isinstance(data, (ast.BinOp, ast.UnaryOp)):
            operands = [item for item in python_ast.children(data) if isinstance(item, ast.expr)]
            tensors = [item for item in operands if not isinstance(item, ast.Constant)]
            return bool(tensors) and all(self._is_made_here(item, function, seen) for item in tensors)
        if not isinstance(data, ast.Call) or any(item.arg in ("device", None) for item in data.keywords):
            return False
        owner = data.func.value if isinstance(data.func, ast.Attribute) and data.func.attr not in _MOVES else None
        return self._is_new(data) or (owner is not None and self._is_made_here(owner, function, seen))

    def _bound(self, name: str, function: ast.AST) -> list[ast.expr]:
        """The values that a function assigns to a variable; nothing if one of them is unknown."""
        bound = [node for node in python_ast.walk(function) if isinstance(node, ast.Name) and node.id == name]
        made = [self.model.tree.parent(node) for node in bound if not isinstance(node.ctx, ast.Load)]
        values = [item.value for item in made if isinstance(item, ast.Assign) and len(item.targets) == 1]
        return values if len(values) == len(made) else []

    def _is_new(self, call: ast.Call) -> bool:
        """Whether a call creates a tensor from numbers, on the CPU by default."""
        package, _, name = self.model.definitions.named(call.func).rpartition(".")
        return package == "torch" and name in api.CREATORS and not _HANDING_ON.search(name)

    def _is_none(self, target: ast.Attribute) -> bool:
        """Whether the value is None, as where a layer has no such parameter."""
        statement = self.model.tree.parent(target)
        value = statement.value if isinstance(statement, (ast.Assign, ast.AnnAssign)) else None
        return value is not None and python_ast.is_literal(value, None)

    def _is_leaf_in_use(self, target: ast.Name, made: ast.Call) -> bool:
        """Whether a tensor that requires a gradient goes to an optimizer, or its gradient is read."""
        name = self.model.definitions.named(made.func)
        flags = [item for item in made.keywords if item.arg == "requires_grad"]
        if not flags or not python_ast.is_literal(flags[0].value, True):
            return False
        if not name.startswith("torch.") or name.rpartition(".")[2] not in api.CREATORS or "Float" in name:
            return False
        scope = self.model.tree.scope_around(target)
        if not self._is_new(made) and not (made.args and self._is_made_here(made.args[0], scope)):
            return False  # on the device of another tensor: `torch.randn_like(x, requires_grad=True)`
        uses = [node for node in python_ast.walk(scope) if isinstance(node, ast.Name) and node.id == target.id]
        if sum(not isinstance(node.ctx, ast.Load) for node in uses) != 1:
            return False
        around = [self.model.tree.parent(node) for node in uses if isinstance(node.ctx, ast.Load)]
        attributes = {item.attr for item in around if isinstance(item, ast.Attribute)}
        if attributes & {"retain_grad", "requires_grad_", "data"}:
            return False
        return "grad" in attributes or any(self._is_optimized(item) for item in around if item is not None)

    def _is_optimized(self, around: ast.AST) -> bool:
        """Whether a PyTorch optimizer receives a list."""
        call = self.model.tree.parent(around) if isinstance(around, (ast.List, ast.Tuple)) else None
        if not isinstance(call, ast.Call) or around not in call.args[:1]:
            return False
        name = self.model.definitions.named(call.func)
        return name.startswith("torch.optim.") and naming.is_optimizer_class(name.rpartition(".")[2])

    # -- report ---------------------------------------------------------------------------------------

    def report_LostParameter(self, lost: LostParameter) -> None:
        then = (
            "it is missing from `parameters()` and never trained"
            if lost.is_parameter
            else "it has no `.grad`, and optimizers refuse it"
        )
        self.report(
            lost.move,
            f"if this move makes a copy, as on a GPU, `{lost.name}` is not a leaf: {then}",
            related=[(lost.made, "the leaf is created here")],
            help="move the data first, or create it on the device",
            fix=self._fix(lost),
        )

    def _fix(self, lost: LostParameter) -> edits.Change | None:
        """The move, inside the call that creates the parameter."""
        made, move = self.model.tree.node(lost.made), self.model.tree.node(lost.move)
        written = self.written(lost.move) if lost.is_parameter else None
        if written is None or not isinstance(made, ast.Call) or not isinstance(move, ast.Call):
            return None
        code, data = self.model.tree.code, _data(made)
        if not isinstance(data, (ast.Call, ast.Name, ast.Attribute)) or "\n" in code(lost.move):
            return None
        suffix = code(lost.move)[len(code(lost.made)) :]
        content = f"{code(made.func)}({code(data)}{suffix})"
        return edits.Change("move the data first", [edits.Replace(written, content)])


def _moved(node: ast.expr | None) -> ast.Call | None:
    """The call whose result is moved: `nn.Parameter(x)` of `nn.Parameter(x).to(device).half()`."""
    is_moved = False
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _MOVES:
        node, is_moved = node.func.value, True
    return node if is_moved and isinstance(node, ast.Call) else None


def _is_moved(data: bytes, match: re.Match[bytes]) -> bool:
    """Whether a move follows the brackets that open in a match, or that contain it."""
    depth = 1
    for bracket in re.finditer(rb"[()#\"']", data[match.end() :]):
        if bracket[0] in b"#\"'":
            return True  # brackets may be part of a string
        depth += 1 if bracket[0] == b"(" else -1
        if not depth:
            return bool(_MOVED.match(data, match.end() + bracket.end()))
    return True


def _data(made: ast.Call) -> ast.expr | None:
    """The data of a parameter, if its other arguments only say that it is trained."""
    named = [item.value for item in made.keywords if item.arg == "data"]
    others = [item for item in made.keywords if item.arg != "data"]
    given = [*made.args, *named]
    return given[0] if len(given) == 1 and all(map(_is_trained, others)) else None


def _is_trained(keyword: ast.keyword) -> bool:
    """Whether an argument of a parameter has its default value."""
    return keyword.arg == "requires_grad" and python_ast.is_literal(keyword.value, True)
