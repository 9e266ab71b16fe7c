"""Images that are normalized with their mean as the standard deviation."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model.queries import names, written
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_NORMALIZING = ("torchvision.", "albumentations", "kornia.")
_NAMES = frozenset({"Normalize"})
_HALF = 0.5
"""A mean and deviation that map [0, 1] to [-1, 1]."""


class SameNumbers(NamedTuple):
    """The call at `site` gets the same numbers as mean and as standard deviation."""

    site: Site


class MeanAsDeviation(Rule):
    """The mean and the standard deviation of a normalization are the same numbers.

    ## What it does
    Finds `Normalize(mean, std)` of torchvision, albumentations and kornia where both arguments are the same numbers,
    and these are not all 0.5.

    ## Why is this bad?
    One of the two was copied in place of the other. The images are shifted or scaled by the wrong numbers. A pretrained
    network then receives inputs in a different range than during its training.

    ## Example
    ```python
    from torchvision import transforms

    MEAN = (0.4914, 0.4822, 0.4465)
    STD = (0.4914, 0.4822, 0.4465)
    transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize(MEAN, STD)])
    ```

    Use instead:
    ```python
    from torchvision import transforms

    MEAN = (0.4914, 0.4822, 0.4465)
    STD = (0.2470, 0.2435, 0.2616)
    transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize(MEAN, STD)])
    ```

    ## References
    - [torchvision.transforms.Normalize](https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.Normalize.html)
    """

    code = "TL644"
    category = Category.CORRECTNESS
    triggers = ((b"Normalize",), (b"torch",))

    def ask(self) -> Iterator[SameNumbers]:
        for call in [] if self.model.is_test else self.model.tree.of_type(ast.Call):
            if python_ast.called_name(call) in _NAMES and self._is_known(call):
                mean, deviation = (self._numbers(call, index, name) for index, name in enumerate(("mean", "std")))
                if mean is not None and mean == deviation and set(mean) != {_HALF}:
                    yield SameNumbers(python_ast.site_of(call))

    def _is_known(self, call: ast.Call) -> bool:
        return names.imported(call.func, self.model.definitions).startswith(_NORMALIZING)

    def _numbers(self, call: ast.Call, index: int, name: str) -> list[float] | None:
        """The literal numbers of an argument, also through a variable."""
        given = written.argument(call, index, name)
        value = written.value_of(given, self.model.definitions) if given is not None else None
        items = value.elts if isinstance(value, (ast.Tuple, ast.List)) else []
        found = [
            item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, (int, float))
        ]
        return [float(item) for item in found] if found and len(found) == len(items) else None

    def report_SameNumbers(self, found: SameNumbers) -> None:
        self.report(
            found.site,
            "the mean and the standard deviation are the same numbers: images are scaled by their mean",
            help="pass the standard deviation of the data as `std`",
        )
