"""Losses that expect probabilities but receive raw scores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Confidence, Rule
from torchlint.model.queries import losses
from torchlint.pytorch.losses import FUNCTIONS

if TYPE_CHECKING:
    from torchlint.index import FileIndex
    from torchlint.syntax.python_ast import Site

_SCORES = frozenset({"linear", "conv1d", "conv2d", "conv3d"})
_PROBABILITIES = frozenset({"softmax", "sigmoid"})
_OF_LOGARITHMS = ("nll_loss", "ctc_loss")
_CLASSES = {function: name for name, function in FUNCTIONS.items()}


class WrongInput(NamedTuple):
    """The loss at `loss` gets the value made at `source`: raw scores, or `probabilities`."""

    loss: Site
    source: Site
    function: str
    probabilities: bool
    is_softmax: bool = False


class LossWithoutActivation(Rule):
    """A loss for probabilities or their logarithms gets an input of another kind.

    ## What it does
    Finds calls to `F.nll_loss` and `nn.NLLLoss` whose input comes from a softmax, a sigmoid, a linear layer or a
    convolution. Finds the same for `F.ctc_loss` and `nn.CTCLoss`. Also finds calls to `F.binary_cross_entropy` and
    `nn.BCELoss` whose input comes from such a layer. That softmax, sigmoid or layer may be in the same function, or in
    every `return` of a module's `forward` in the same file.

    By default, torchlint reports all forms of `ctc_loss`, and a softmax as input of `nll_loss`. All other forms need
    `--preview`.

    ## Why is this bad?
    `nll_loss` and `ctc_loss` expect log-probabilities, and return their negative. For any other input, the result is
    not a loss. It falls below 0 without bound, and training follows it. `binary_cross_entropy` expects probabilities. A
    score below 0 or above 1 raises an error.

    ## Example
    ```python
    import torch.nn.functional as F
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(8, 3)

        def forward(self, x):
            return F.softmax(self.head(x), dim=1)

    def loss(net: Net, x, y):
        return F.nll_loss(net(x), y)
    ```

    Use instead:
    ```python
    import torch.nn.functional as F
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(8, 3)

        def forward(self, x):
            return F.log_softmax(self.head(x), dim=1)

    def loss(net: Net, x, y):
        return F.nll_loss(net(x), y)
    ```

    ## What verify shows
    `torchlint verify` observes the input of the loss. It confirms the finding if the input has values that no
    activation produces. It refutes the finding if the input never has such values.

    ## References
    - [torch.nn.NLLLoss](https://docs.pytorch.org/docs/stable/generated/torch.nn.NLLLoss.html):
      "The input given through a forward call is expected to contain log-probabilities of each class"
    - [torch.nn.BCELoss](https://docs.pytorch.org/docs/stable/generated/torch.nn.BCELoss.html)
    """

    code = "TL505"
    category = Category.CORRECTNESS
    triggers = (
        (b"NLLLoss", b"nll_loss", b"CTCLoss", b"ctc_loss", b"BCELoss", b"binary_cross_entropy"),
        (b"torch",),
    )
    calls = frozenset({"NLLLoss", "nll_loss", "CTCLoss", "ctc_loss", "BCELoss", "binary_cross_entropy"})

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        """Whether the file calls such a loss and a source of scores or probabilities."""
        words = (b"oftmax", b"igmoid", b"Linear", b"Conv", b"linear", b"conv")
        return any(True for _ in index.mentions(cls.calls)) and index.has_word(words)

    def ask(self) -> Iterator[WrongInput]:
        for event, loss in self.model.endings.losses(*_OF_LOGARITHMS, "binary_cross_entropy"):
            function, given = losses.loss_function(loss), losses.operands(loss)[0]
            scores = self.model.endings.of(given, _SCORES, call=event.value)
            if scores is not None:
                if not self.model.endings.is_inside(event, loss, scores):
                    yield WrongInput(event.site, scores, function, probabilities=False)
                continue
            probabilities = (
                self.model.endings.of(given, _PROBABILITIES, call=event.value) if function in _OF_LOGARITHMS else None
            )
            if probabilities is not None and not self.model.endings.is_inside(event, loss, probabilities):
                is_softmax = self.model.endings.of(given, {"softmax"}, call=event.value) is not None
                yield WrongInput(event.site, probabilities, function, True, is_softmax)

    def report_WrongInput(self, wrong: WrongInput) -> None:
        is_nll, is_ctc = wrong.function in _OF_LOGARITHMS, wrong.function == "ctc_loss"
        wanted = "log-probabilities" if is_nll else "probabilities"
        given = "probabilities" if wrong.probabilities else "raw scores"
        then = "the loss falls below 0 without bound" if is_nll else "scores below 0 or above 1 raise an error"
        other = "cross_entropy" if is_nll else "binary_cross_entropy_with_logits"
        instead = f"use `{other}`, or `{_CLASSES[other]}`"
        self.report(
            wrong.loss,
            f"`{wrong.function}` expects {wanted}, but gets {given}: {then}",
            related=[(wrong.source, f"the {given} are made here")],
            help="apply `log_softmax`" if wrong.probabilities or is_ctc else instead,
            confidence=Confidence.HIGH if wrong.is_softmax or is_ctc else Confidence.LOW,
        )
