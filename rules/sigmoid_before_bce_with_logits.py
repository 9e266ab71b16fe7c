"""Probabilities where binary cross-entropy wants logits."""

from __future__ import annotations

from torchlint import Category

from ._doubled_activation import DoubledActivation


class SigmoidBeforeBceWithLogits(DoubledActivation):
    """Binary cross-entropy with logits is given a sigmoid, though it applies one.

    ## What it does
    Finds calls of `F.binary_cross_entropy_with_logits` and `nn.BCEWithLogitsLoss` whose input is the result of a
    sigmoid: in the same function, or as an output of a module of the file, on every `return` of its `forward`.

    ## Why is this bad?
    The loss takes logits, of any size. Probabilities are between 0 and 1, of which its own sigmoid makes 0.5 to 0.73:
    a perfect negative still costs 0.69, a perfect positive 0.31. Gradients are small, and no prediction is confident.

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
    Removing the sigmoid is unsafe: it changes the loss. It is offered where nothing else reads the sigmoid.

    ## What verify shows
    `torchlint verify` looks at what the loss is given: confirmed if all values are in [0, 1], at each call; refuted if
    there are others, at each call.

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
