"""Terms of a loss that reach only networks which no step updates with their gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Model
from torchlint.model import events, lineage, program, utilities, values
from torchlint.model.relations import terms
from torchlint.syntax.python_ast import Site

_CUTS = frozenset({"detach", "data"})


class ForeignTerm(NamedTuple):
    """A term of a loss that is cut at `cut` from all networks that `step` updates."""

    site: Site
    cut: Site
    step: events.Step
    is_drawn: bool = False
    """Whether the cut is a sample of a distribution."""


class ForeignTerms:
    """Compares the networks behind each term with those of the steps that use its gradients."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def terms_in(self, trace: program.Trace) -> Iterator[ForeignTerm]:
        """The terms of all losses in a trace that are cut from the networks which their steps update."""
        for backward in trace.of(events.Backward):
            if not backward.undecided:
                yield from self._of(trace, backward)

    def _of(self, trace: program.Trace, backward: events.Backward) -> Iterator[ForeignTerm]:
        """The terms that no step learns from, although one of them depends on what the step trains."""
        found = [term for term in self._model.terms.of(backward.loss) if term.learns is not values.Answer.NO]
        steps = self._steps(trace, backward) if len(found) > 1 else []
        held = [self._model.ownership.held_by(values.resolved(step.optimizer)) for step in steps]
        ours = {module for modules, _ in held for module in modules}
        if not ours or not all(is_known for _, is_known in held):
            return
        own = [term for term in found if self._is_surely_ours(term, ours)]
        for term in found if own else ():
            cut = self._cut(term, ours) if term not in own and self._is_foreign(term, ours) else None
            if cut is not None and cut.site is not None and term.site is not None:
                yield ForeignTerm(term.site, cut.site, steps[0], isinstance(cut, values.NewTensor))

    def _steps(self, trace: program.Trace, backward: events.Backward) -> list[events.Step]:
        """The steps that use the gradients of a backward; none if some of that is unknown."""
        steps = {step: self._model.gradients.uses(trace, step, backward) for step in trace.of(events.Step)}
        if any(step.manual or answer is values.Answer.UNKNOWN for step, answer in steps.items()):
            return []
        return [step for step, answer in steps.items() if answer is values.Answer.YES]

    def _is_surely_ours(self, term: terms.Term, ours: set[values.Value]) -> bool:
        return self._model.ownership.overlap(ours, self._modules(term)[0])

    def _is_foreign(self, term: terms.Term, ours: set[values.Value]) -> bool:
        """Whether a term has a graph, and the graph surely reaches none of these networks."""
        modules, is_complete = self._modules(term)
        is_known = is_complete and bool(modules) and all(map(_is_known, modules | ours))
        return is_known and not self._model.ownership.overlap(ours, modules)

    def _modules(self, term: terms.Term) -> tuple[set[values.Value], bool]:
        graph = self._model.tracking.pass_through(term.place.value)
        return self._model.ownership.modules_in({item for item in graph if not _only_passes_on(item)})

    def _cut(self, term: terms.Term, ours: set[values.Value]) -> values.Value | None:
        """The result that is cut from an output of these networks, on the way to a term: detached, or a sample."""
        for value in self._model.terms.came_from(term):
            before = self._before(value)
            if before and self._model.ownership.overlap(ours, self._model.ownership.modules_in(before)[0]):
                return value
        return None

    def _before(self, value: values.Value) -> set[values.Value]:
        """The graph that a detached result, or a sample of a distribution, had before."""
        if isinstance(value, values.NewTensor):
            _, _, source = self._model.program.observations.calls.get(value, ("", None, None))
            return lineage.ancestry([source]) if source is not None and _is_distribution(source) else set()
        is_cut = isinstance(value, values.Tensor) and value.op in _CUTS
        if not is_cut or value.site is None or self._is_of_layer(value.site):
            return set()
        return lineage.ancestry([value])

    def _is_of_layer(self, site: Site) -> bool:
        """Whether a place is in the `forward` of a module."""
        method = self._model.definitions.method_around(self._model.tree.node(site))
        owner = method.owner if method is not None else None
        return site.inner is not None or (owner is not None and self._model.program.is_module_class(owner))


def _only_passes_on(value: values.Value) -> bool:
    """Whether a library returned a value for arguments without networks: then it has no graph but theirs."""
    if not isinstance(value, values.CallResult) or any(isinstance(item, values.Module) for item in value.parents):
        return False
    callee = value.callee
    while isinstance(callee, values.BoundMethod):
        callee = values.resolved(callee.parents[0])
    return value.label == "zip" if callee is None else isinstance(callee, values.External) or _only_passes_on(callee)


def _is_distribution(value: values.Value) -> bool:
    made = value.body if isinstance(value, values.ModuleOutput) else value
    return utilities.is_kind(made, utilities.Kind.DISTRIBUTION)


def _is_known(module: values.Value) -> bool:
    """Whether a module is one that the program creates, or a parameter or an attribute, and not a part of a result."""
    return isinstance(module, (values.Module, values.Parameter)) or (
        isinstance(module, values.Attribute) and all(map(_is_known, module.parents))
    )
