"""The terms of a loss, each with the answer whether parameters learn from it."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

from torchlint.model.events import Backward, Keep
from torchlint.model.frozen import Frozen
from torchlint.model.kinds import is_number
from torchlint.model.module_values import has_parameters, returned_by, returned_parts
from torchlint.model.ownership import Ownership
from torchlint.model.program import Program
from torchlint.model.relations.answer import Answer as Text
from torchlint.model.relations.terms.graph_ends import RESCALING, Ends, GraphEnds, Place
from torchlint.model.relations.terms.untrained import UntrainedPart, UntrainedParts
from torchlint.model.tracking import Tracking
from torchlint.model.values import (
    Answer,
    Component,
    Container,
    Leaf,
    Module,
    ModuleOutput,
    Phi,
    Plain,
    Tensor,
    Unknown,
    Value,
    resolved,
)
from torchlint.pytorch import losses, naming
from torchlint.pytorch.effects import GradMode
from torchlint.pytorch.operators import ADD, DIV, MUL, SUB
from torchlint.syntax.python_ast import Site, called_name, site_beside

_JOINING = frozenset("stack cat concat concatenate hstack".split())
_PASSING = (RESCALING | {"reshape", "unsqueeze"}) - {ADD, SUB, MUL, DIV}
_MOST_TERMS = 64


class Term(NamedTuple):
    """A term of a loss, at the `site` that adds it to the others; None if the loss is no sum."""

    place: Place
    site: Site | None
    is_subtracted: bool
    learns: Answer
    """Whether parameters learn from it."""
    found: Ends
    """The ends of its graph if nothing learns from it; otherwise the places without a known end."""


class _Part(NamedTuple):
    place: Place
    site: Site | None = None
    is_subtracted: bool = False
    reader: Tensor | None = None
    """The sum or stack that reads a container."""


class Terms:
    """Splits losses into terms."""

    def __init__(self, program: Program, tracking: Tracking, ownership: Ownership, frozen: Frozen) -> None:
        self._untrained = UntrainedParts(program, tracking, ownership, frozen)
        self._program = program
        self._tracking = tracking
        self.ends = GraphEnds(program, tracking)
        self._known: dict[Value, list[Term]] = {}
        self._entered: set[Value] = set()

    def of(self, loss: Value) -> list[Term]:
        """The terms of a loss, each once; one if it is no sum."""
        if loss not in self._known:
            self._known[loss] = [self._term(part) for part in self._parts(loss)]
        return self._known[loss]

    def untrained_parts(self) -> Iterator[UntrainedPart]:
        """The parts of modules that a loss needs and an optimizer holds, but that run without gradients."""
        return self._untrained.answers()

    def learns(self, value: Value) -> Answer:
        """Whether parameters learn from a value."""
        return self._term(_Part(Place(resolved(value)).opened())).learns

    def _term(self, part: _Part) -> Term:
        found = self.ends.of([part.place])
        if not found.open:
            return Term(*part[:3], Answer.NO, found)
        sources = (part.place.value, *(place.value for place in found.open))
        learns = any(self._tracking.tracked(value) is Answer.YES for value in sources)
        return Term(*part[:3], Answer.YES if learns else Answer.UNKNOWN, found)

    def answers(self) -> Iterator[Text]:
        """For each term of a sum that goes backward, whether parameters learn from it."""
        for trace in self._program.traces:
            for backward in trace.of(Backward):
                found = self.of(backward.loss)
                for term in found if len(found) > 1 else ():
                    site = term.site or term.place.value.site
                    if site is not None:
                        yield Text(site, self._said(term))

    def _said(self, term: Term) -> str:
        if term.learns is Answer.YES:
            return "learns"
        if term.learns is Answer.NO:
            cuts = sorted({end.cut.value for end in term.found.ends})
            return f"does not learn: {', '.join(cuts) or 'a constant'}"
        site = term.found.open[0].value.site
        return f"unknown: `{' '.join(self._program.definitions.tree.code(site).split())}`" if site else "unknown"

    def came_from(self, term: Term) -> set[Value]:
        """All inputs of a term, with or without graph."""
        return self.ends.operands([term.place])

    def _parts(self, loss: Value) -> Iterator[_Part]:
        return self._within(_Part(Place(resolved(loss))))

    def _within(self, whole: _Part) -> Iterator[_Part]:
        """The parts that a value sums."""
        stack, seen = [whole], set[Place]()
        while stack and len(seen) < _MOST_TERMS:
            part = stack.pop()
            part = part._replace(place=part.place.opened())
            if part.place in seen:
                continue
            seen.add(part.place)
            inner = self._inner(part)
            if inner is None:
                yield part
            else:
                stack.extend(reversed(inner))

    def _inner(self, part: _Part) -> list[_Part] | None:
        """The values that a value sums or rescales; None for a term."""
        value = part.place.value

        def within(*items: Value) -> list[_Part]:
            return [part._replace(place=part.place.to(item)) for item in items]

        if isinstance(value, Phi):
            is_drawn = value.source is not None or value.is_keyed  # perhaps not all items of the container
            return within(*value.parents) if not is_drawn else None
        if isinstance(value, Container):
            return self._items(part, value) or None
        if not isinstance(value, Tensor) or value.mode is not GradMode.ON or value.leaf:
            return None
        if isinstance(value, (ModuleOutput, Component)):
            return self._inner_of_output(part, value)
        if value.op in (ADD, SUB):
            return self._summands(part, value)
        if value.op in (MUL, DIV):
            return self._weighted(part, value)
        if value.op in _JOINING and value.parents:
            return [part._replace(place=part.place.to(value.parents[0]), reader=value)]
        return within(value.parents[0]) if value.op in _PASSING and value.parents else None

    def _items(self, part: _Part, container: Container) -> list[_Part]:
        """The values in a container, without those that enter it after the sum: they are in no loss."""
        reader = part.reader
        later: set[Value] = set()
        if reader is not None and reader.loops == container.loops:
            entered = self._stores.get(container, {})
            later = {item for item in container.elements() if max(item.order, entered.get(item, 0)) > reader.order}
        return [
            part._replace(place=part.place.to(item), site=part.site or item.site)
            for item in container.elements()
            if item not in later
        ]

    @cached_property
    def _stores(self) -> dict[Value, dict[Value, int]]:
        """When each value first enters a container after its creation."""
        found: dict[Value, dict[Value, int]] = defaultdict(dict)
        for trace in self._program.traces:
            for event in trace.of(Keep):
                found[resolved(event.container)].setdefault(event.value, event.order)
        return found

    def _summands(self, part: _Part, value: Tensor) -> list[_Part] | None:
        node = self._program.definitions.tree.node(value.site)
        if len(value.parents) == 1:
            is_sum = isinstance(node, ast.Call) and called_name(node) == "sum"
            return [part._replace(place=part.place.to(value.parents[0]), reader=value)] if is_sum else None
        if len(value.parents) != 2:
            return None
        sites = _operand_sites(node, value.site)
        return [
            _Part(part.place.to(item), site or part.site, part.is_subtracted or (value.op == SUB and number == 1))
            for number, (item, site) in enumerate(zip(value.parents, sites, strict=True))
        ]

    def _weighted(self, part: _Part, value: Tensor) -> list[_Part] | None:
        """The operand that decides whether a product has a graph; none if a product is 0 anyway."""
        factors = [part.place.to(item).opened() for item in value.parents]
        if any(isinstance(item.value, Plain) and item.value.constant == 0 for item in factors):
            return []
        if len(factors) != 2:
            return None
        without = [item for item in factors if self._has_no_graph(item)]
        others = [item for item in factors if item not in without]
        if len(others) != 1:
            return None
        decides = without[0] if _is_coefficient(others[0].value) else others[0]
        if value.op == DIV and decides is not factors[0]:
            return None
        return [part._replace(place=decides)]

    def _inner_of_output(self, part: _Part, value: Tensor) -> list[_Part] | None:
        """The result of a loss module, or of a network that returns its loss: the value of its `forward`."""
        whole = value.parents[0] if isinstance(value, Component) else value
        if not isinstance(whole, ModuleOutput):
            return None
        module = resolved(whole.parents[0])
        if not isinstance(module, Module) or module.info is None:
            return None
        body = returned_by(whole)
        returned = returned_parts(value) if isinstance(value, Component) else [body] if body is not None else []
        calls = (*part.place.calls, whole)
        inner = [part._replace(place=Place(resolved(item), calls)) for item in returned]
        return inner if inner and (not has_parameters(module) or self._is_objective(whole, inner)) else None

    def _is_objective(self, output: ModuleOutput, parts: list[_Part]) -> bool:
        """Whether each value is a loss, or a sum with a loss: a network returns it, but it is no prediction.

        A network that receives its own previous output returns a prediction.
        """
        if output in self._entered:
            return False
        self._entered.add(output)
        try:
            return all(any(is_loss(term.place.value) for term in self._within(part)) for part in parts)
        finally:
            self._entered.discard(output)

    def _has_no_graph(self, place: Place) -> bool:
        return self._tracking.tracked(place.value) is Answer.NO or not self.ends.of([place]).open


def _is_coefficient(value: Value) -> bool:
    """Whether an unknown value is a plain number by its name."""
    is_unknown = isinstance(value, Unknown) and is_number(value) is not Answer.NO
    return is_unknown and naming.COEFFICIENT.search(value.label) is not None


def is_loss(value: Value) -> bool:
    """Whether a value is computed by a loss of PyTorch: a function or a module."""
    if isinstance(value, ModuleOutput):
        module = resolved(value.parents[0])
        return isinstance(module, Module) and module.name.rpartition(".")[2] in losses.FUNCTIONS
    return isinstance(value, Tensor) and value.op in losses.OPERATORS


def _operand_sites(node: ast.AST | None, site: Site | None) -> tuple[Site | None, Site | None]:
    """The sites of the two operands of the sum at a site."""
    if isinstance(node, ast.BinOp):
        return site_beside(node.left, site), site_beside(node.right, site)
    return (None, site_beside(node.value, site)) if isinstance(node, ast.AugAssign) else (None, None)


def leaf_of(loss: Value) -> Leaf | None:
    """The leaf that a loss is, perhaps scaled or moved: a new tensor from a number, without a graph before it."""
    loss = _returned(resolved(loss))
    while isinstance(loss, Tensor) and not loss.leaf and loss.op in RESCALING:
        others = loss.parents[1:]
        if not loss.parents or any(is_number(item) is not Answer.YES for item in others):
            return None
        loss = _returned(resolved(loss.parents[0]))
    return loss if isinstance(loss, Leaf) and loss.leaf else None


def _returned(value: Value) -> Value:
    """The value that the `forward` of a loss module returns."""
    while isinstance(value, ModuleOutput) and (inner := returned_by(value)) is not None:
        value = resolved(inner)
    return value
