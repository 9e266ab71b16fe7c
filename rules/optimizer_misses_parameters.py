"""Parameters that should be trained, but are missing from the optimizer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Confidence, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import events, lineage, program, values
from torchlint.model.relations import provenance
from torchlint.pytorch import triggers
from torchlint.syntax.python_ast import Site

if TYPE_CHECKING:
    from torchlint.index import FileIndex

    from ._exchanged_optimizers import Exchanged
    from ._filtered_parameters import Unfrozen
    from ._lightning_parameters import LeftOut
    from ._misnamed_optimizers import OfAnother
    from ._repeated_parameters import Twice

    _Late = Unfrozen | provenance.Replacement | provenance.Reassigned

_ADDING = LazyPattern(rb"add_param_group|param_groups\.|\[[\"']params[\"']\]\s*=")
"""Calls that add new parameters to an optimizer."""
_LIGHTNING = b"configure_optimizers"


class LateUnfreezing(NamedTuple):
    """`module` was frozen during its pass for the loss of `backward`, and is unfrozen at `site`, later."""

    site: Site
    module: values.Value
    backward: events.Backward


class OptimizerMissesParameters(Rule):
    """The optimizer does not hold all parameters that the model trains.

    ## What it does
    Finds parameters that the loss trains but that the optimizer does not hold, in eight cases:

    - The code creates an optimizer, and then replaces the module or one of its layers with a new one.
    - `requires_grad = True` unfreezes a module too late: after its forward pass, or after the optimizer has received
      only the parameters that required grad at that time.
    - The loss is a module with parameters of its own, and no optimizer holds them.
    - Two networks of one class, such as `critic_1` and `critic_2`, compute the loss, and the optimizer holds only one.
    - `training_step` of a Lightning module calls a layer that `configure_optimizers` leaves out.
    - A list contains the parameters of one module twice, usually in place of another module.
    - Two optimizers get the parameters of one module, and one of them is named after another module.
    - Two optimizers each get the parameters of the module that the other is named after.

    ## Why is this bad?
    The new parameters keep their initial values, and there is no error. For example, a new classification head stays
    random. The optimizer still updates the old parameters, which nothing uses. A module that is unfrozen after the
    forward pass gets no gradient from this pass.

    ## Example
    ```python
    import torch
    import torch.nn.functional as F
    from torch import nn

    def finetune(model, loader):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        model.fc = nn.Linear(512, 10)
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
    ```

    Use instead:
    ```python
    import torch
    import torch.nn.functional as F
    from torch import nn

    def finetune(model, loader):
        model.fc = nn.Linear(512, 10)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
    ```

    ## What verify shows
    `torchlint verify` tracks the parameters created at the line. It confirms the finding if these parameters receive
    gradients and no optimizer holds or changes them. It refutes the finding if an optimizer holds them and steps.

    ## References
    - [torch.optim](https://docs.pytorch.org/docs/stable/optim.html): how to construct an optimizer
    """

    code = "TL111"
    category = Category.CORRECTNESS
    triggers = ((*triggers.BACKWARD, _LIGHTNING), (*triggers.STEP, _LIGHTNING), (b"parameters", b"params"))

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        return index.goes_backward or _LIGHTNING in index.code

    def ask(self) -> Iterator[_Late | provenance.Unheld | LateUnfreezing | LeftOut | Twice | OfAnother | Exchanged]:
        if self.model.tree.source.code.count(b"optim.") > 1 and not self.model.is_test:
            from ._exchanged_optimizers import exchanged

            yield from exchanged(self.model.definitions)
        if self.model.tree.source.code.count(b".parameters()") > 1 and not self.model.is_test:
            from ._misnamed_optimizers import MisnamedOptimizers
            from ._repeated_parameters import repeated_parameters

            yield from repeated_parameters(self.model.tree)
            yield from MisnamedOptimizers(self.model.definitions).all()
        if _LIGHTNING in self.model.tree.source.code and not self.model.is_test:
            from ._lightning_parameters import LightningParameters

            yield from LightningParameters(self.model).all()
        if self.model.is_test or any(_ADDING.search(tree.source.code) for tree in self.model.program.files):
            return
        if b"requires_grad" in self.model.tree.source.code:
            from ._filtered_parameters import FilteredParameters

            yield from FilteredParameters(self.model).all()
        for trace in self.model.program.traces:
            for step in trace.of(events.Step):
                optimizer = values.resolved(step.optimizer)
                yield from self.model.replacements.missed_whichever(trace, step)
                if isinstance(optimizer, values.Optimizer) and self.model.ownership.held_by(optimizer)[1]:
                    yield from self._unfrozen(trace, step, optimizer)

    # -- unfrozen too late ---------------------------------------------------------------------------------

    def _unfrozen(self, trace: program.Trace, step: events.Step, optimizer: values.Value) -> Iterator[LateUnfreezing]:
        """Modules that are unfrozen once between the forward pass and the backward."""
        for backward in provenance.before(trace, step) if not step.loops else ():
            for module in self.model.replacements.called(trace, backward) if not backward.loops else ():
                passes = [event.order for event in trace.of(events.Compute) if _runs(event, module)]
                site = self._unfreezing(module, max(passes, default=0), backward)
                if site is not None and self.model.ownership.holds(optimizer, module) is values.Answer.YES:
                    yield LateUnfreezing(site, module, backward)

    def _unfreezing(self, module: values.Value, ran: int, backward: events.Backward) -> Site | None:
        """The place that unfreezes a module after its last run and before a backward."""
        if not self.model.frozen.may_be_partly(module):
            return None
        switches = self.model.program.observations.unfrozen
        found = [item for item in switches if 0 < ran < item.order < backward.order and item.site is not None]
        return next((item.site for item in found if module in lineage.ancestry([item])), None)

    # -- report --------------------------------------------------------------------------------------------

    def report_Replacement(self, new: provenance.Replacement) -> None:
        assert new.module.site is not None
        related = [(new.step.site, "this step updates the parameters of the old one")]
        if new.optimizer.site is not None:
            related.insert(0, (new.optimizer.site, "the optimizer received its parameters here"))
        self.report(
            new.module.site,
            f"`{new.step.name}` is created before `{new.name}`, so the parameters of `{new.name}` never learn",
            related=related,
            help=f"create the optimizer after `{new.name}`",
        )

    def report_Reassigned(self, loaded: provenance.Reassigned) -> None:
        what = "`assign=True`" if loaded.method == "load_state_dict" else f"`{loaded.method}`"
        self.report(
            loaded.site,
            f"{what} replaces the parameters that `{loaded.step.name}` holds: the new ones never learn",
            related=[(loaded.step.site, "this step updates the old ones")],
            help="replace the parameters before creating the optimizer"
            + (", or load them without `assign=True`" if "assign" in what else ""),
        )

    def report_Unheld(self, missed: provenance.Unheld) -> None:
        places = (missed.module.site, "it is created here"), (missed.optimizer.site, "the optimizer is created here")
        related = [(site, what) for site, what in places if site is not None]
        self.report(
            missed.step.site,
            f"`{missed.name}` computes this loss, but no optimizer holds its parameters: they never learn",
            related=related,
            help="pass its parameters to the optimizer, or freeze it with `requires_grad_(False)`",
            confidence=Confidence.HIGH if missed.is_sure else Confidence.LOW,
        )

    def report_Twice(self, found: Twice) -> None:
        self.report(
            found.site,
            f"this list contains the parameters of `{found.name}` twice: those of another module may be missing",
            related=[(found.first, "it contains them already")],
            help="pass the parameters of each module once",
        )

    def report_OfAnother(self, found: OfAnother) -> None:
        self.report(
            found.site,
            f"`{found.name}` gets the parameters of `{found.held}`: no optimizer gets those of `{found.missed}`",
            related=[(found.first, "another optimizer has them already")],
            help=f"pass `{found.missed}.parameters()`",
        )

    def report_Exchanged(self, found: Exchanged) -> None:
        self.report(
            found.site,
            f"`{found.name}` gets the parameters of `{found.held}`, and `{found.other}` those meant for `{found.name}`",
            related=[(found.there, f"`{found.other}` gets the other parameters here")],
            help="exchange the parameters of the two optimizers",
        )

    def report_LeftOut(self, missed: LeftOut) -> None:
        self.report(
            missed.use,
            f"`{missed.name}` computes this loss, but `configure_optimizers` leaves it out: it never learns",
            related=[(missed.created, "it is created here"), (missed.made, "the optimizer is created here")],
            help="pass its parameters to the optimizer, or freeze it with `requires_grad_(False)`",
        )

    def report_Unfrozen(self, unfrozen: Unfrozen) -> None:
        self.report(
            unfrozen.site,
            f"`{unfrozen.place}` is unfrozen too late: the optimizer does not hold its parameters, so they never learn",
            related=[(unfrozen.frozen, "it is frozen here"), (unfrozen.made, "the optimizer is created here")],
            help="call `add_param_group`, or pass all parameters to the optimizer",
        )

    def report_LateUnfreezing(self, late: LateUnfreezing) -> None:
        name = late.module.label or "the module"
        self.report(
            late.site,
            f"`{name}` is unfrozen after its forward pass: `backward` computes no gradients for it",
            related=[(late.backward.site, "this `backward` skips it")],
            help="unfreeze it before the forward pass",
        )


def _runs(event: events.Compute, module: values.Value) -> bool:
    return isinstance(event.value, values.ModuleOutput) and values.resolved(event.value.parents[0]) is module
