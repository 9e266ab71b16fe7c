"""Image transforms in the wrong order or on the wrong value scale."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model.queries import transforms, written
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_TENSORS = frozenset({"ToTensor", "PILToTensor", "ToImage", "ConvertImageDtype", "ToDtype"})
_COLORS = frozenset(
    "ColorJitter RandomAutocontrast RandomEqualize RandomPosterize RandomSolarize AutoAugment".split()
) | {
    "RandAugment",
    "TrivialAugmentWide",
    "AugMix",
    "RandomAdjustSharpness",
}
"""Color transforms, which clip values below 0 or above 1."""
_OF_TENSORS = frozenset({"Normalize", "RandomErasing", "LinearTransformation"})


class WrongOrder(NamedTuple):
    """The transform `name` at `site` is on the wrong side of `other`."""

    site: Site
    other: Site
    name: str
    how: str


class TransformOrder(Rule):
    """An image transform receives values outside of its expected format.

    ## What it does
    Finds `transforms.Compose` of torchvision with:

    - `Normalize` or `RandomErasing` before `ToTensor`
    - color transforms after `Normalize`
    - `Normalize` after `ToTensor` with means for values up to 255

    ## Why is this bad?
    `Normalize` raises for an image that is not a tensor yet. Color transforms clip to the range from 0 to 1. After
    `Normalize`, they set all values darker than the mean to 0. `ToTensor` produces values from 0 to 1, so a mean of 123
    makes all pixels nearly equal.

    ## Example
    ```python
    from torchvision import transforms

    train = transforms.Compose([
        transforms.ToTensor(),
        transforms.Normalize([0.5], [0.5]),
        transforms.ColorJitter(0.4, 0.4),
    ])
    ```

    Use instead:
    ```python
    from torchvision import transforms

    train = transforms.Compose([
        transforms.ColorJitter(0.4, 0.4),
        transforms.ToTensor(),
        transforms.Normalize([0.5], [0.5]),
    ])
    ```

    ## References
    - [torchvision.transforms.ToTensor](https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.ToTensor.html)
    """

    code = "TL623"
    category = Category.CORRECTNESS
    triggers = ((b"torchvision",), (b"Compose",), (b"Normalize", b"RandomErasing"))

    def ask(self) -> Iterator[WrongOrder]:
        for call in self.model.tree.of_type(ast.Call):
            if transforms.name_of(call, self.model.definitions) == "Compose":
                yield from self._wrong(transforms.steps_of(call, self.model.definitions))

    def _wrong(self, steps: list[tuple[str, ast.expr]]) -> Iterator[WrongOrder]:
        kinds = [name for name, _ in steps]
        if "ToTensor" not in kinds:
            return
        place = kinds.index("ToTensor")
        to_tensor = python_ast.site_of(steps[place][1])
        back = kinds.index("ToPILImage") if "ToPILImage" in kinds[:place] else 0  # before it, the image is a tensor
        for name, made in steps[back:place]:
            if name in _OF_TENSORS and not _TENSORS & {*kinds[:place]} and all(kinds[:place]):
                yield WrongOrder(python_ast.site_of(made), to_tensor, name, "before")
        normal: ast.expr | None = None
        for index, (name, made) in enumerate(steps[place:], place):
            is_scaled = all(kinds[place:index]) and "Lambda" not in kinds[place:index]
            if name == "Normalize" and is_scaled and self._is_of_bytes(made):
                yield WrongOrder(python_ast.site_of(made), to_tensor, name, "scale")
            if name == "Normalize":
                normal = made if normal is None else None  # the second one undoes the first
            elif not name or name in ("Lambda", "ToPILImage"):
                normal = None
            elif name in _COLORS and normal is not None:
                yield WrongOrder(python_ast.site_of(made), python_ast.site_of(normal), name, "colors")

    def _is_of_bytes(self, made: ast.expr) -> bool:
        """Whether the means of a `Normalize` are numbers above 1."""
        mean = written.argument(made, 0, "mean") if isinstance(made, ast.Call) else None
        mean = written.value_of(mean, self.model.definitions) if mean is not None else None
        items = mean.elts if isinstance(mean, (ast.List, ast.Tuple)) else []
        numbers = [item.value for item in items if isinstance(item, ast.Constant)]
        return (
            bool(items)
            and len(numbers) == len(items)
            and all(isinstance(item, (int, float)) and item > 2 for item in numbers)
        )

    def report_WrongOrder(self, found: WrongOrder) -> None:
        messages = {
            "before": (
                f"`{found.name}` needs a tensor, but comes before `ToTensor`",
                "the image becomes a tensor here",
            ),
            "scale": ("these means are for values up to 255: `ToTensor` outputs at most 1", "this scales values"),
            "colors": (
                f"`{found.name}` clips to the range from 0 to 1, but comes after `Normalize`",
                "`Normalize` moves values out of that range here",
            ),
        }
        message, related = messages[found.how]
        advice = {"scale": "divide means and deviations by 255"}.get(found.how, "swap the two transforms")
        self.report(found.site, message, related=[(found.other, related)], help=advice)
