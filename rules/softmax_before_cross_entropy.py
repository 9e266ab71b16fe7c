"""Probabilities where cross-entropy wants logits."""

from __future__ import annotations

from torchlint import Category

from ._doubled_activation import DoubledActivation


class SoftmaxBeforeCrossEntropy(DoubledActivation):
    """Cross-entropy is given a softmax, though it applies one itself.

    ## What it does
    Finds calls of `F.cross_entropy` and `nn.CrossEntropyLoss` whose input is the result of a softmax: in the same
    function, or as an output of a module of the file, on every `return` of its `forward`.

    ## Why is this bad?
    The loss takes logits, of any size. Probabilities are between 0 and 1, so that its own softmax makes them nearly
    equal: with ten classes a perfect prediction still costs 1.46, and a hopeless one 2.46. Gradients are small
    everywhere, and training is slow or stops early.

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
    Removing the softmax is unsafe: it changes the loss. It is offered where nothing else reads the softmax.

    ## What verify shows
    `torchlint verify` looks at what the loss is given: confirmed if all rows are in [0, 1] and add up to one, at each
    call; refuted if there are values outside of [0, 1] at each call.

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
