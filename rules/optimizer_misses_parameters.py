"""Parameters that should be trained, but are missing from the optimizer."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Confidence, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import definitions, events, lineage, program, values
from torchlint.model.queries import torch_classes, written
from torchlint.model.relations import provenance
from torchlint.pytorch import naming, triggers
from torchlint.syntax import python_ast
from torchlint.syntax.python_ast import Site

if TYPE_CHECKING:
    from torchlint.index import FileIndex
    from torchlint.syntax.python_ast import Site

    from ._filtered_parameters import Unfrozen
    from ._misnamed_optimizers import Exchanged, OfAnother, Twice

    _Late = Unfrozen | provenance.Replacement | provenance.Reassigned

_ADDING = LazyPattern(rb"add_param_group|param_groups\.|\[[\"']params[\"']\]\s*=")
"""Calls that add new parameters to an optimizer."""
_LIGHTNING = b"configure_optimizers"
_FIXED = LazyPattern(r"(?i)random|fixed|percep|lpips|vgg|inception|clip|metric|pretrained|codec|tokenizer|(^|_)vae")
_SOURCES = frozenset({"parameters", "named_parameters"})


class LeftOut(NamedTuple):
    """The training step of a Lightning module calls `name` at `use`, and the optimizer made at `made` leaves it out."""

    use: Site
    name: str
    created: Site
    made: Site


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
        if self.model.tree.source.code.count(b"param") > 1 and not self.model.is_test:
            from ._misnamed_optimizers import MisnamedOptimizers, repeated_parameters

            optimizers = MisnamedOptimizers(self.model.definitions)
            yield from optimizers.exchanged()
            yield from optimizers.of_another()
            yield from repeated_parameters(self.model.tree)
        if _LIGHTNING in self.model.tree.source.code and not self.model.is_test:
            yield from self._left_out_by_lightning()
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

    # -- layers of Lightning modules -----------------------------------------------------------------------

    def _left_out_by_lightning(self) -> Iterator[LeftOut]:
        for info in self.model.definitions.classes.values():
            configure, step = info.methods.get("configure_optimizers"), info.methods.get("training_step")
            if configure is None or step is None or not torch_classes.is_lightning(info):
                continue
            held = _held_by(configure)
            used: dict[str, ast.Call] = {}
            for call in _calls_in(step.node):
                name = _own_attribute(call.func, step.parameters[0])
                if name is not None:
                    used.setdefault(name, call)
            for name, call in used.items() if held else ():
                made = self._made(info, name) if name not in held else None
                if made is not None:
                    site = python_ast.site_of(configure.node)
                    yield LeftOut(python_ast.site_of(call), f"self.{name}", python_ast.site_of(made), site)

    def _made(self, info: definitions.ClassInfo, name: str) -> ast.Call | None:
        """The creation of a new layer with weights, if the class only stores it and calls it with gradients on."""
        stores = list(written.stores_of(name, info))
        made = written.assigned(stores[0], self.model.definitions) if len(stores) == 1 else None
        if not isinstance(made, ast.Call) or not self.model.provenance.has_weights(made):
            return None
        if naming.STANDING_STILL.search(name) or _FIXED.search(name) or _FIXED.search(self.model.tree.code(made)):
            return None
        uses = [node for node in self.model.tree.of_type(ast.Attribute) if node.attr == name]
        return made if all(self._is_plain(node) for node in uses) else None

    def _is_plain(self, node: ast.Attribute) -> bool:
        """Whether a use stores a layer or calls it, outside all blocks that may switch gradients off."""
        if isinstance(node.ctx, ast.Store):
            return True
        parent = self.model.tree.parent(node)
        if not isinstance(parent, ast.Call) or parent.func is not node:
            return False
        for item in self.model.tree.ancestors(node):
            if isinstance(item, python_ast.FUNCTIONS):
                return not any("grad" in self.model.tree.code(each) for each in item.decorator_list)
            if isinstance(item, ast.With) and any(
                "grad" in self.model.tree.code(each.context_expr) for each in item.items
            ):
                return False
        return False

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


def _held_by(configure: definitions.FunctionInfo) -> set[str]:
    """The attributes whose parameters a method collects; empty if it may collect others."""
    own, held = configure.parameters[0], set[str]()
    for node in python_ast.walk(configure.node):
        if isinstance(node, ast.Call) and python_ast.called_name(node) in _SOURCES:
            path = python_ast.dotted(node.func).split(".")
            if len(path) < 3 or path[0] != own:
                return set()
            held.add(path[1])
        elif isinstance(node, ast.Call) and any(python_ast.dotted(item) == own for item in python_ast.arguments(node)):
            return set()
        elif isinstance(node, ast.Call) and python_ast.dotted(node.func).count(".") == 1:
            if python_ast.dotted(node.func).startswith(f"{own}."):
                return set()  # another method may collect more
        elif isinstance(node, (ast.Subscript, ast.For, ast.GeneratorExp, ast.ListComp)):
            return set()
    return held


def _calls_in(function: ast.AST) -> list[ast.Call]:
    return [node for node in python_ast.walk(function) if isinstance(node, ast.Call)]


def _own_attribute(node: ast.expr, own: str) -> str | None:
    is_own = isinstance(node, ast.Attribute) and python_ast.dotted(node.value) == own
    return node.attr if isinstance(node, ast.Attribute) and is_own else None
