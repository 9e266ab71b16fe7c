"""Steps that use gradients of another network's backward pass."""

from __future__ import annotations

from collections.abc import Iterator

from torchlint import Category, Confidence, Rule
from torchlint.model.relations import gradients
from torchlint.pytorch import triggers


class MixedGradients(Rule):
    """A step also uses gradients from a pass that trains another network.

    ## What it does
    Finds a step that uses the gradients of two backward passes since its last `zero_grad`. One of the passes trains
    another network, but goes through both networks. Right before this pass, or right after its step, the code clears
    only the gradients of the other network.

    If the other network has not taken its step before the second pass, the finding is reported only with `--preview`.

    ## Why is this bad?
    The gradients of both losses add up. In an actor-critic method the critic then learns to rate every action
    higher, as the actor's loss demands. In a GAN the discriminator learns to help the generator.

    ## Example
    ```python
    import torch

    def train(G, D, loader):
        g_opt = torch.optim.Adam(G.parameters())
        d_opt = torch.optim.Adam(D.parameters())
        for real, noise in loader:
            g_opt.zero_grad()
            (-D(G(noise)).mean()).backward()
            g_opt.step()
            (D(G(noise).detach()).mean() - D(real).mean()).backward()
            d_opt.step()
            d_opt.zero_grad()
    ```

    Use instead:
    ```python
    import torch

    def train(G, D, loader):
        g_opt = torch.optim.Adam(G.parameters())
        d_opt = torch.optim.Adam(D.parameters())
        for real, noise in loader:
            g_opt.zero_grad()
            (-D(G(noise)).mean()).backward()
            g_opt.step()
            d_opt.zero_grad()
            (D(G(noise).detach()).mean() - D(real).mean()).backward()
            d_opt.step()
    ```

    ## References
    - [torch.optim: taking an optimization step](https://docs.pytorch.org/docs/stable/optim.html#taking-an-optimization-step)
    """

    code = "TL124"
    category = Category.SUSPICIOUS
    triggers = (triggers.BACKWARD, triggers.STEP, triggers.CLEAR)

    def ask(self) -> Iterator[gradients.MixedStep]:
        for trace in self.model.program.traces:
            for optimizer in self.model.ownership.optimizers(trace):
                yield from gradients.mixed_steps(self.model.gradients, trace, optimizer)

    def report_MixedStep(self, mixed: gradients.MixedStep) -> None:
        name, other, is_before = mixed.step.name, mixed.other.name, mixed.clear.order < mixed.foreign.order
        self.report(
            mixed.step.site,
            f"the step of `{name}` also uses the gradients that the `backward` for `{other}` computed",
            related=[
                (mixed.own.site, "its own gradients are computed here"),
                (mixed.foreign.site, f"the `backward` for `{other}` adds to them here"),
                (
                    mixed.clear.site,
                    f"only the gradients of `{other}` are cleared {'before its `backward`' if is_before else 'here'}",
                ),
            ],
            help=f"clear the gradients of `{name}` before its own `backward`"
            if mixed.is_finished
            else f"call `{name}.step()` before the `backward` for `{other}`, or clear its gradients",
            confidence=Confidence.MEDIUM if mixed.is_finished else Confidence.LOW,
        )
