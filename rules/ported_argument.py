"""Arguments of layers that mean something else in PyTorch than in TensorFlow and Keras."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import default_numbers, names, written
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_NORMALIZATIONS = frozenset(f"torch.nn.{kind}Norm{size}d" for kind in ("Batch", "LazyBatch") for size in (1, 2, 3))
_DROPOUTS = {f"torch.nn.{name}": 0 for name in "Dropout Dropout1d Dropout2d Dropout3d AlphaDropout".split()} | {
    f"torch.nn.functional.{name}": 1 for name in "dropout dropout1d dropout2d dropout3d alpha_dropout".split()
}
"""Layers and functions that drop values, with the position of the probability."""
_KEPT = LazyPattern(r"(?i)^keep_?(?:prob(?:ability)?|rate|ratio)s?$|_keep_?prob$")
_LARGE = 0.1
"""No reasonable `eps` is so large: the default is 0.00001."""
_HALF = 0.5
"""A smaller number is usually the probability to drop a value, whatever its name says."""
_SLOW = 0.99
"""A usual momentum of TensorFlow; in PyTorch it is the weight of the newest batch."""


class Ported(NamedTuple):
    """The layer at `site` gets `code` as an argument that means something else here."""

    site: Site
    kind: str
    code: str


class PortedArgument(Rule):
    """An argument of dropout or batch normalization has the meaning of TensorFlow.

    ## What it does
    Finds three arguments that code ported from TensorFlow or Keras gets wrong:

    - `nn.Dropout(keep_prob)`: PyTorch expects the probability to drop a value, not to keep it
    - `nn.BatchNorm2d(64, 0.8)` and `nn.BatchNorm2d(n, n)`: the second argument is `eps`
    - `nn.BatchNorm2d(64, momentum=0.99)`: PyTorch's momentum is the weight of the newest batch

    Not reported: a keep probability that is at most 0.5 by default, and a momentum of 1, which keeps the statistics of
    the last batch on purpose.

    ## Why is this bad?
    Dropout with a keep probability of 0.9 removes nine of ten values. An `eps` of 0.8 is added to the variance: the
    layer no longer normalizes activations with a small variance. With a momentum of 0.99, the running statistics are
    those of the last batch, and evaluation results are noisy.

    ## Example
    ```python
    from torch import nn

    def block(keep_prob=0.9):
        return nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8, 0.8), nn.ReLU(), nn.Dropout(keep_prob))
    ```

    Use instead:
    ```python
    from torch import nn

    def block(keep_prob=0.9):
        return nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8, momentum=0.2), nn.ReLU(), nn.Dropout(1 - keep_prob))
    ```

    ## References
    - [torch.nn.BatchNorm2d](https://docs.pytorch.org/docs/stable/generated/torch.nn.BatchNorm2d.html): its note
      explains the momentum
    - [torch.nn.Dropout](https://docs.pytorch.org/docs/stable/generated/torch.nn.Dropout.html)
    """

    code = "TL349"
    category = Category.CORRECTNESS
    triggers = ((b"torch",), (b"keep", b"Keep", b"BatchNorm"))

    def ask(self) -> Iterator[Ported]:
        definitions = self.model.definitions
        for call, name in names.calls_of(_NORMALIZATIONS | _DROPOUTS.keys(), definitions):
            if name in _DROPOUTS:
                found = self._kept(written.argument(call, _DROPOUTS[name], "p"))
            else:
                found = self._normalizes(call, 0 if "Lazy" in name else 1)
            if found is not None:
                yield found

    def _kept(self, given: ast.expr | None) -> Ported | None:
        """The argument, if its name says that it is the probability to keep a value."""
        if given is None or not _KEPT.search(python_ast.last_name(given)):
            return None
        share = default_numbers.default_number(given, self.model.definitions)
        if share is not None and share <= _HALF:
            return None
        return Ported(python_ast.site_of(given), "keep", self.model.tree.code(given))

    def _normalizes(self, call: ast.Call, first: int) -> Ported | None:
        """The `eps` or momentum of a normalization that is far from any sensible one."""
        for index, kind in ((first, "eps"), (first + 1, "momentum")):
            given = written.argument(call, index, kind)
            value = written.value_of(given, self.model.definitions) if given is not None else None
            if given is not None and value is not None and self._is_wrong(value, call, kind):
                code = self.model.tree.code(value if isinstance(value, ast.Constant) else given)
                return Ported(python_ast.site_of(given), kind, code)
        return None

    def _is_wrong(self, value: ast.expr, call: ast.Call, kind: str) -> bool:
        if kind == "eps" and isinstance(value, (ast.Name, ast.Attribute)):
            return len(call.args) > 1 and python_ast.written_alike(*call.args[:2])  # the channels once more
        number = value.value if isinstance(value, ast.Constant) else None
        if isinstance(number, bool) or not isinstance(number, (int, float)):
            return False
        return number >= _LARGE if kind == "eps" else _SLOW <= number < 1

    def report_Ported(self, found: Ported) -> None:
        messages = {
            "keep": f"dropout expects the probability to drop a value: `{found.code}` is the probability to keep it",
            "eps": f"this sets `eps` to `{found.code}`, which the layer adds to the variance",
            "momentum": f"a momentum of `{found.code}` keeps the statistics of the last batch only, unlike in Keras",
        }
        advice = {
            "keep": f"pass `1 - {found.code}`",
            "eps": "leave out the second argument, or name the one that you mean: `momentum=0.1`",
            "momentum": "pass one minus the momentum of Keras: `momentum=0.01`",
        }
        self.report(found.site, messages[found.kind], help=advice[found.kind])
