"""Probabilities that pass through a sigmoid or softmax again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.model import values
from torchlint.model.queries import masks
from torchlint.syntax.python_ast import Site

_ACTIVATIONS = {"Sigmoid": "sigmoid", "Softmax": "softmax", "LogSoftmax": "log_softmax", "Tanh": "tanh"}
_TWICE = {
    "sigmoid": {"sigmoid", "softmax"},
    "softmax": {"softmax"},
    "log_softmax": {"softmax", "log_softmax"},
    "tanh": {"tanh"},
}
"""Activations by name, each with the activations whose results it must not receive."""


class Twice(NamedTuple):
    """The activation `name` at `site` receives the result of `before`, at `first`."""

    site: Site
    first: Site
    name: str
    before: str


class ActivationTwice(Rule):
    """A sigmoid, softmax or tanh receives the result of the same function.

    ## What it does
    Finds `torch.sigmoid`, `tanh`, `softmax` and `log_softmax` where torchlint knows that the input is the result of
    the same activation. This includes results of modules, such as `torch.sigmoid(model(x))` where the model ends in
    `nn.Sigmoid`.

    ## Why is this bad?
    A sigmoid of a probability is between 0.5 and 0.73, so a threshold of 0.5 predicts 1 for everything. A softmax of a
    softmax is nearly uniform. Confidences are wrong, and gradients are small. A tanh of a tanh is between -0.76 and
    0.76, so actions and pixels never reach their bounds.

    ## Example
    ```python
    import torch
    from torch import nn

    model = nn.Sequential(nn.Linear(8, 1), nn.Sigmoid())

    def predict(x):
        return torch.sigmoid(model(x)) > 0.5
    ```

    Use instead:
    ```python
    import torch
    from torch import nn

    model = nn.Sequential(nn.Linear(8, 1), nn.Sigmoid())

    def predict(x):
        return model(x) > 0.5
    ```

    ## References
    - [torch.sigmoid](https://docs.pytorch.org/docs/stable/generated/torch.sigmoid.html)
    """

    code = "TL533"
    category = Category.CORRECTNESS
    triggers = ((b"torch",), (b"igmoid", b"oftmax", b"anh"))
    calls = frozenset({"sigmoid", "softmax", "log_softmax", "Sigmoid", "Softmax", "tanh", "Tanh"})

    def ask(self) -> Iterator[Twice]:
        seen = set[Site]()
        for value, calls in [] if self.model.is_test else self.model.computed:
            name, operand = self._activation(value)
            if operand is not None and name in _TWICE and value.site is not None and value.site not in seen:
                for before in sorted(_TWICE[name]):
                    first = self.model.endings.of(masks.argument(operand, calls), {before})
                    if first is not None and first != value.site:
                        seen.add(value.site)
                        yield Twice(value.site, first, name, before)

    def _activation(self, value: values.Tensor) -> tuple[str, values.Value | None]:
        """The activation that produced a value, and its input."""
        if isinstance(value, values.ModuleOutput):
            module = values.resolved(value.parents[0])
            if not isinstance(module, values.Module) or module.info is not None or len(value.parents) < 2:
                return "", None
            return _ACTIVATIONS.get(module.name.removeprefix("torch.nn."), ""), value.parents[1]
        return value.op, value.parents[0] if value.parents else None

    def report_Twice(self, found: Twice) -> None:
        if found.name == "tanh":
            holds = "a tanh, which is between -1 and 1 already"
        else:
            first = "a sigmoid" if found.before == "sigmoid" else "a softmax"
            holds = f"{first}, which already holds probabilities"
        self.report(
            found.site,
            f"`{found.name}` receives the result of {holds}",
            related=[(found.first, "the first activation is here")],
            help="remove one of the two activations",
        )
