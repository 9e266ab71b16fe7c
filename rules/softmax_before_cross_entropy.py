"""Probabilities as input of a cross-entropy that expects logits."""

from __future__ import annotations

from torchlint import Category

from ._doubled_activation import DoubledActivation


class SoftmaxBeforeCrossEntropy(DoubledActivation):
    """Cross-entropy receives a softmax, though it applies softmax itself.

    ## What it does
    Finds calls to `F.cross_entropy` and `nn.CrossEntropyLoss` whose input is the result of a softmax. The softmax may
    be in the same function, or in every `return` of a module's `forward` in the same file.

    ## Why is this bad?
    The loss expects logits of any size. Probabilities are between 0 and 1, so the loss's own softmax makes them nearly
    equal. With ten classes, a perfect prediction still costs 1.46, and a hopeless one 2.46. Gradients are small
    everywhere, and training is slow or stalls early.

    ## Example
    ```python
    import torch.nn.functional as F

    def loss(model, x, y):
        probabilities = F.softmax(model(x), dim=1)
        return F.cross_entropy(probabilities, y)
    ```

    Use instead:
    ```python
    import torch.nn.functional as F

    def loss(model, x, y):
        logits = model(x)
        return F.cross_entropy(logits, y)
    ```

    ## Fix safety
    The fix removes the softmax. It is unsafe because it changes the loss. There is no fix if other code uses the result
    of the softmax.

    ## What verify shows
    `torchlint verify` observes the input of the loss. It confirms the finding if all rows are in [0, 1] and sum to one
    at every call. It refutes the finding if values outside of [0, 1] occur at every call.

    ## References
    - [torch.nn.CrossEntropyLoss](https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html):
      "The input is expected to contain the unnormalized logits for each class"
    """

    code = "TL501"
    category = Category.CORRECTNESS
    triggers = ((b"CrossEntropyLoss", b"cross_entropy"), (b"oftmax",))
    calls = frozenset({"CrossEntropyLoss", "cross_entropy"})
    function = "cross_entropy"
    activation = "softmax"
    spoken = "cross-entropy"
