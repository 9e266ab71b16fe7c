"""Terms of a total loss of which only another part goes backward."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

from torchlint import Model
from torchlint.model import events, program, values
from torchlint.model.relations import terms
from torchlint.pytorch import operators
from torchlint.syntax.python_ast import Site


class LeftOutTerm(NamedTuple):
    """The term at `site` is added to the loss of `backward`, but nothing goes backward through it."""

    site: Site
    backward: Site


class LeftOutTerms:
    """Finds sums of losses that a program only shows, although one of their terms goes backward."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def terms_in(self, trace: program.Trace) -> Iterator[LeftOutTerm]:
        """The terms that no backward pass of a trace reaches."""
        backwards = trace.of(events.Backward)
        if not backwards or any(item.undecided for item in backwards):
            return
        whole = ((item, self._model.terms.of(item.loss)) for item in backwards)
        passes = {found[0].place.value: item for item, found in whole if len(found) == 1}
        used = self._used(trace)
        for total in self._shown:
            if total not in used:
                yield from self._left_out(total, passes, used)

    @cached_property
    def _shown(self) -> list[values.Tensor]:
        """The sums that a program converts to numbers."""
        operands = (item for _, parts, _ in self._model.program.observations.numbers.values() for item in parts)
        sums = dict.fromkeys(map(values.resolved, operands))
        return [item for item in sums if isinstance(item, values.Tensor) and item.op == operators.ADD]

    def _left_out(
        self, total: values.Tensor, passes: dict[values.Value, events.Backward], used: set[values.Value]
    ) -> Iterator[LeftOutTerm]:
        found = self._model.terms.of(total)
        trained = [passes[term.place.value] for term in found if term.place.value in passes]
        rest = [term for term in found if term.place.value not in used and _shares_graph(term, used)]
        if len(trained) == 1 and rest and rest[0].site is not None and total.order < trained[0].order:
            yield LeftOutTerm(rest[0].site, trained[0].site)

    def _used(self, trace: program.Trace) -> set[values.Value]:
        """The values through which something goes backward, or may: also those that other code receives or keeps."""
        found = [event.loss for event in trace.of(events.Backward)]
        found += [event.outputs for event in trace.of(events.Grad)]
        found += [event.value for event in trace.of(events.Returned)]
        for call in trace.of(events.Call):
            if self._model.ownership.may_go_backward(call):
                found += call.value.parents
        return {value for item in found for value in self._model.tracking.graph(item)}


def _shares_graph(term: terms.Term, used: set[values.Value]) -> bool:
    """Whether a term has a graph from an output of a network that the trained term uses, too."""
    if term.learns is values.Answer.NO:
        return False
    return any(
        not used.isdisjoint({place.value, *place.calls, *map(values.resolved, place.value.parents)})
        for place in term.found.open
    )
