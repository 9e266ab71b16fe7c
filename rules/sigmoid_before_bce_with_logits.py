"""Probabilities as input of a binary cross-entropy that expects logits."""

from __future__ import annotations

from torchlint import Category

from ._doubled_activation import DoubledActivation


class SigmoidBeforeBceWithLogits(DoubledActivation):
    """Binary cross-entropy with logits receives a sigmoid and applies another one.

    ## What it does
    Finds calls to `F.binary_cross_entropy_with_logits` and `nn.BCEWithLogitsLoss` whose input is the result of a
    sigmoid. The sigmoid may be in the same function, or in every `return` of a module's `forward` in the same file.

    ## Why is this bad?
    The loss expects logits of any size. Probabilities are between 0 and 1, and the loss's own sigmoid maps them to
    values between 0.5 and 0.73. A perfect negative still costs 0.69, and a perfect positive 0.31. Gradients are small,
    and no prediction is confident.

    ## Example
    ```python
    import torch
    import torch.nn.functional as F

    def loss(model, x, y):
        probabilities = torch.sigmoid(model(x))
        return F.binary_cross_entropy_with_logits(probabilities, y)
    ```

    Use instead:
    ```python
    import torch.nn.functional as F

    def loss(model, x, y):
        logits = model(x)
        return F.binary_cross_entropy_with_logits(logits, y)
    ```

    ## Fix safety
    The fix removes the sigmoid. It is unsafe because it changes the loss. There is no fix if other code uses the result
    of the sigmoid.

    ## What verify shows
    `torchlint verify` observes the input of the loss. It confirms the finding if all values are in [0, 1] at every
    call. It refutes the finding if other values occur at every call.

    ## References
    - [torch.nn.BCEWithLogitsLoss](https://docs.pytorch.org/docs/stable/generated/torch.nn.BCEWithLogitsLoss.html):
      "This loss combines a Sigmoid layer and the BCELoss in one single class"
    """

    code = "TL502"
    category = Category.CORRECTNESS
    triggers = ((b"BCEWithLogitsLoss", b"binary_cross_entropy_with_logits"), (b"igmoid",))
    calls = frozenset({"BCEWithLogitsLoss", "binary_cross_entropy_with_logits"})
    function = "binary_cross_entropy_with_logits"
    activation = "sigmoid"
    spoken = "the loss"
