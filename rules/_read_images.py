"""Color images that a function reads, as arrays with the channels last."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchlint.model.queries import variables
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.model.definitions import Definitions

_STEPS = 12
_FUNCTIONS = frozenset(
    "cv2.resize cv2.GaussianBlur cv2.flip np.array np.asarray np.float32 numpy.array numpy.asarray torch.from_numpy "
    "torch.tensor torch.as_tensor torch.FloatTensor torch.Tensor".split()
)
"""Functions that keep the order of an image's dimensions, the first argument."""
_METHODS = frozenset("astype float double copy clone to cuda cpu contiguous resize div unsqueeze".split())
_COLOR = frozenset({"1", "cv2.IMREAD_COLOR"})


def origin(image: ast.expr, definitions: Definitions) -> ast.Call | None:
    """The call that reads an image in color, if the steps from there surely keep the channels last."""
    node: ast.expr | None = image
    for _ in range(_STEPS):
        if isinstance(node, ast.Name):
            node = variables.value_before(node, definitions)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Div, ast.Sub, ast.Mult)):
            node = node.left
        elif isinstance(node, ast.Call):
            if _reads_color(node):
                return node
            node = _operand(node)
        else:
            break
    return None


def _reads_color(call: ast.Call) -> bool:
    """Whether a call reads an image of three channels: `cv2.imread(path)`, `Image.open(path).convert("RGB")`."""
    if python_ast.dotted(call.func) == "cv2.imread":
        flags = [*call.args[1:], *(item.value for item in call.keywords)]
        return all(ast.unparse(item) in _COLOR for item in flags)
    is_converted = isinstance(call.func, ast.Attribute) and call.func.attr == "convert"
    return is_converted and [getattr(item, "value", None) for item in call.args] == ["RGB"]


def _operand(call: ast.Call) -> ast.expr | None:
    """The image that a call keeps as it is, or None."""
    name = python_ast.dotted(call.func)
    if name in _FUNCTIONS:
        return call.args[0] if call.args else None
    if name == "cv2.cvtColor":
        is_color = len(call.args) == 2 and ast.unparse(call.args[1]).endswith(("2RGB", "2BGR", "2HSV", "2LAB"))
        return call.args[0] if is_color else None
    is_method = isinstance(call.func, ast.Attribute) and call.func.attr in _METHODS
    return call.func.value if is_method and isinstance(call.func, ast.Attribute) else None
