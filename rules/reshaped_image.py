"""Images whose channels a `reshape` or `view` moves to the front."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model.queries import numbers, variables
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.model.definitions import Definitions
    from torchlint.syntax.python_ast import Site
_STEPS = 12
_FUNCTIONS = frozenset(
    "cv2.resize cv2.GaussianBlur cv2.flip np.array np.asarray np.float32 numpy.array numpy.asarray torch.from_numpy "
    "torch.tensor torch.as_tensor torch.FloatTensor torch.Tensor".split()
)
"""Functions that keep the order of an image's dimensions, the first argument."""
_METHODS = frozenset("astype float double copy clone to cuda cpu contiguous resize div unsqueeze".split())
_COLOR = frozenset({"1", "cv2.IMREAD_COLOR"})


class Reshaped(NamedTuple):
    """The call at `site` reshapes an image of shape (height, width, 3), read at `made`, to (3, height, width)."""

    site: Site
    made: Site
    name: str


class ReshapedImage(Rule):
    """A `reshape` of an image to channels first mixes its pixels.

    ## What it does
    Finds images that a function reads with OpenCV or PIL in color, and that `reshape` or `view` turns into the shape
    `(3, height, width)`.

    ## Why is this bad?
    OpenCV and NumPy store the three colors of a pixel next to each other. `reshape` keeps that order, so each "channel"
    is a third of the rows, with all colors mixed. The shapes fit, and the model learns from scrambled images.

    ## Example
    ```python
    import cv2
    import torch

    def load(path):
        image = cv2.resize(cv2.imread(path), (224, 224))
        return torch.from_numpy(image).view(3, 224, 224).float()
    ```

    Use instead:
    ```python
    import cv2
    import torch

    def load(path):
        image = cv2.resize(cv2.imread(path), (224, 224))
        return torch.from_numpy(image).permute(2, 0, 1).float()
    ```

    ## References
    - [torch.permute](https://docs.pytorch.org/docs/stable/generated/torch.permute.html)
    """

    code = "TL722"
    category = Category.CORRECTNESS
    triggers = ((b"torch",), (b"reshape", b"view"), (b"imread", b"Image"))

    def ask(self) -> Iterator[Reshaped]:
        for call in [] if self.model.is_test else self.model.tree.of_type(ast.Call):
            if python_ast.called_name(call) in ("reshape", "view"):
                image = _reshaped(call)
                made = _origin(image, self.model.definitions) if image is not None else None
                if made is not None:
                    name = python_ast.called_name(call)
                    yield Reshaped(python_ast.site_of(call), python_ast.site_of(made), name)

    def report_Reshaped(self, found: Reshaped) -> None:
        self.report(
            found.site,
            f"`{found.name}` does not move the channels to the front: it mixes the pixels and colors of the image",
            related=[(found.made, "this image has the shape (height, width, 3)")],
            help="use `permute(2, 0, 1)`, or `transpose(2, 0, 1)` in NumPy",
        )


def _reshaped(call: ast.Call) -> ast.expr | None:
    """The operand of a call that requests the shape `(3, height, width)`, perhaps with a batch before it."""
    if not isinstance(call.func, ast.Attribute):
        return None
    is_numpy = python_ast.dotted(call.func) in ("np.reshape", "numpy.reshape", "torch.reshape")
    operand, given = (call.args[0], call.args[1:]) if is_numpy and call.args else (call.func.value, call.args)
    sizes = given[0].elts if len(given) == 1 and isinstance(given[0], (ast.Tuple, ast.List)) else given
    if len(sizes) not in (3, 4) or (len(sizes) == 4 and numbers.literal(sizes[0]) not in (1, -1)):
        return None
    is_first = numbers.literal(sizes[-3]) == 3 and 3 not in (numbers.literal(sizes[-1]), numbers.literal(sizes[-2]))
    return operand if is_first else None


def _origin(image: ast.expr, definitions: Definitions) -> ast.Call | None:
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
