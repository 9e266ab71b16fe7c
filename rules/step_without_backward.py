"""Steps that come before the backward of their iteration."""

import libcst as cst

from torchlint import Category, Rule


class StepWithoutBackward(Rule):
    """An optimizer steps before the backward pass of its iteration.

    ## What it does
    Finds a `step` at the top of a loop whose `backward` only follows below it, with none before the loop.

    ## Why is this bad?
    The first step has no gradient to use, each later one uses those of the iteration before, and the last
    gradients are never used.

    ## Example
    ```python
    import torch

    def train(model, loader, criterion):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in loader:
            loss = criterion(model(x), y)
            optimizer.step()
            optimizer.zero_grad()
            loss.backward()
    ```

    Use instead:
    ```python
    import torch

    def train(model, loader, criterion):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in loader:
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    ```

    ## References
    - [torch.optim: taking an optimization step](https://docs.pytorch.org/docs/stable/optim.html#taking-an-optimization-step)
    """

    code = "TL103"
    category = Category.SUSPICIOUS
    triggers = ((b"backward",), (b"step",))

    def visit_Module(self, node: cst.Module) -> None:
        for empty in self.model.protocol.empty_steps():
            self.report(
                empty.step.node,
                f"`{empty.step.name}` steps before the `backward` of its iteration: the first step is empty, later ones are late",
                related=[(empty.backward.node, "the gradients are computed here")],
                help="step after the `backward`",
            )
