"""A torchvision weights class used instead of one of its members."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import names
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_CLASS = LazyPattern(r"^torchvision\.models\.(?:\w+\.)*\w+_Weights$")
_PARAMETERS = frozenset({"weights", "weights_backbone"})


class WholeEnum(NamedTuple):
    """The argument at `site` is the weights class with this name."""

    site: Site
    name: str


class WeightsEnum(Rule):
    """A torchvision model gets a weights class instead of one of its members.

    ## What it does
    Finds calls such as `resnet18(weights=ResNet18_Weights)`, even through a variable or one branch of a conditional
    expression.

    ## Why is this bad?
    The argument must be one of the weights, such as `ResNet18_Weights.DEFAULT`. The class itself raises a `TypeError`.
    If the program catches the error, the model starts without pretrained weights.

    ## Example
    ```python
    from torchvision.models import ResNet18_Weights, resnet18

    model = resnet18(weights=ResNet18_Weights)
    ```

    Use instead:
    ```python
    from torchvision.models import ResNet18_Weights, resnet18

    model = resnet18(weights=ResNet18_Weights.DEFAULT)
    ```

    ## References
    - [torchvision: using the pre-trained models](https://docs.pytorch.org/vision/stable/models.html)
    """

    code = "TL526"
    category = Category.CORRECTNESS
    triggers = ((b"_Weights",),)

    def ask(self) -> Iterator[WholeEnum]:
        definitions = self.model.definitions
        for call in self.model.tree.of_type(ast.Call):
            callee = names.imported(call.func, definitions)
            last = callee.rpartition(".")[2]
            if not callee.startswith("torchvision.models.") or not last.islower() or last.startswith("get_"):
                continue
            given = [*call.args[:1], *(item.value for item in call.keywords if item.arg in _PARAMETERS)]
            for argument in (part for item in given for part in self._parts(item)):
                if _CLASS.search(names.imported(argument, definitions)):
                    yield WholeEnum(python_ast.site_of(argument), self.model.tree.code(argument))

    def _parts(self, argument: ast.expr) -> Iterator[ast.Name | ast.Attribute]:
        """The names that an argument may be: itself, both arms of a condition, the only value of a variable."""
        value = names.only_value(argument, self.model.definitions) if isinstance(argument, ast.Name) else None
        argument = value if value is not None else argument
        for part in (argument.body, argument.orelse) if isinstance(argument, ast.IfExp) else (argument,):
            if isinstance(part, (ast.Name, ast.Attribute)):
                yield part

    def report_WholeEnum(self, found: WholeEnum) -> None:
        self.report(
            found.site,
            f"`{found.name}` is the enum class, not one of its weights: the call raises a `TypeError`",
            help=f"pass `{found.name}.DEFAULT`",
        )
