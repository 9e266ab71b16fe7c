"""Loss terms without a graph, next to terms that have one."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Confidence, Rule
from torchlint.model import events, lineage, program, utilities, values
from torchlint.model.relations import gradients, terms
from torchlint.pytorch import autograd_table, operators, triggers
from torchlint.syntax import python_ast
from torchlint.syntax.python_ast import Site

if TYPE_CHECKING:
    from torchlint.index import FileIndex

_CUTTING_WORDS = "item tensor numpy detach arg round ceil floor sign no_grad data autograd > < =="
_MOST_MODULES = 3
"""Modules around a loss."""
_CUTS = frozenset({"detach", "data"})


class LeftOutTerm(NamedTuple):
    """The term at `site` is added to the loss of `backward`, but nothing goes backward through it."""

    site: Site
    backward: Site


class ForeignTerm(NamedTuple):
    """A term of a loss that is cut at `cut` from all networks that `step` updates."""

    site: Site
    cut: Site
    step: events.Step
    is_drawn: bool = False
    """Whether the cut is a sample of a distribution."""


class DeadTerm(NamedTuple):
    """A term of the loss that goes backward at `used`, and trains no parameter, because its graph ends at `end`."""

    term: terms.Term
    end: terms.End
    used: python_ast.Site

    @property
    def site(self) -> python_ast.Site | None:
        """The place of the term."""
        return self.term.site


class DeadLossTerm(Rule):
    """A loss term has no graph, so no parameter learns from it.

    ## What it does
    Finds loss terms computed from a model's output and then cut from its graph, next to terms that keep their graph.
    The graph ends at:

    - `.item()`, `torch.tensor(...)`, NumPy, a comparison, `argmax` or `no_grad`;
    - `autograd.grad` without `create_graph`;
    - `round`, `ceil`, `floor` and `sign`, whose gradient is zero;
    - a detached output, or the data of a parameter.

    Also finds terms that reach only networks which no step updates from this loss, such as the adversarial term of a
    generator that is computed from `fake.detach()`, or the critic's value of an action that `sample()` draws.

    Reported only with `--preview`: terms of a sum on which nothing calls `backward`, if `backward` runs on another term
    of the sum.

    torchlint follows sums, `torch.stack`, weights, and the `forward` of loss modules and of networks that return their
    loss.

    Not reported:

    - a whole term that is detached, unless it is a loss of PyTorch that is then multiplied by a weight
    - data and constants
    - a factor of a term that has a graph
    - a difference from a reference
    - the entropy of a target, if another term is multiplied by the same target

    ## Why is this bad?
    The term changes the logged loss but no gradient. The model trains without it, and there is no error.

    ## Example
    ```python
    import torch
    import torch.nn.functional as F

    def train(model, loader):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in loader:
            out = model(x)
            smoothness = (out[1:] - out[:-1]).pow(2).mean()
            loss = F.mse_loss(out, y) + 0.1 * smoothness.item()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    ```

    Use instead:
    ```python
    import torch
    import torch.nn.functional as F

    def train(model, loader):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in loader:
            out = model(x)
            smoothness = (out[1:] - out[:-1]).pow(2).mean()
            loss = F.mse_loss(out, y) + 0.1 * smoothness
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    ```

    ## What verify shows
    `torchlint verify` tracks the terms at the line, including numbers. It confirms the finding if, in three or more
    steps, a term without a graph was added, `backward` ran on the sum, and the term changed from step to step. It
    refutes the finding if both terms had a graph each time.

    ## References
    - [torch.Tensor.item](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.item.html): "This operation is not
      differentiable"
    """

    code = "TL312"
    category = Category.CORRECTNESS
    triggers = ((*triggers.BACKWARD, b"training_step"), tuple(word.encode() for word in _CUTTING_WORDS.split()))

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        return index.goes_backward or index.has_word((b"training_step",))

    def ask(self) -> Iterator[DeadTerm | ForeignTerm | LeftOutTerm]:
        done: set[python_ast.Site | None] = set()
        for trace in self.model.program.traces:
            if not self.model.program.tests(trace):
                for found in self._terms_in(trace):
                    if found.site not in done:
                        done.add(found.site)
                        yield found

    def _terms_in(self, trace: program.Trace) -> Iterator[DeadTerm | ForeignTerm | LeftOutTerm]:
        for loss, used in self._losses(trace):
            yield from self._dead_terms(loss, used)
        yield from self._foreign_terms(trace)
        yield from self._left_out_terms(trace)

    def _losses(self, trace: program.Trace) -> Iterator[tuple[values.Value, python_ast.Site]]:
        """The losses that go backward, and where."""
        for backward in trace.of(events.Backward):
            if not backward.undecided:
                yield backward.loss, backward.site
        yield from gradients.returned_losses(trace)

    def _dead_terms(self, loss: values.Value, used: python_ast.Site) -> Iterator[DeadTerm]:
        found = self.model.terms.of(loss)
        alive = {term.place.value for term in found if term.learns is not values.Answer.NO}
        for term in found if alive else ():
            end = self._end(term)
            if end is not None and alive.isdisjoint(self.model.terms.came_from(term)):
                if not self._is_of_target(term, loss) and not self._is_shift(term, found):
                    yield DeadTerm(term, end, used)

    def _is_shift(self, term: terms.Term, others: Iterable[terms.Term]) -> bool:
        """Whether another term contains this one, so that both cancel: `top + (x - top).exp().sum().log()`."""
        places = [item.place for item in others if item.learns is not values.Answer.NO]
        return term.place.value in self.model.terms.ends.operands(places)

    def _is_of_target(self, term: terms.Term, loss: values.Value) -> bool:
        """Whether a term has a detached factor of another one, a target: `(q * log_q).sum() - (q * log_p).sum()`."""
        cut = {end.place.value for end in term.found.ends if end.cut in (terms.Cut.DETACHED, terms.Cut.NO_GRAD)}
        others = (item for item in _products(loss) if self.model.terms.learns(item) is not values.Answer.NO)
        shared = {factor for product in others for factor in map(values.resolved, product.parents)}
        own = {factor for product in _products(term.place.value) for factor in map(values.resolved, product.parents)}
        return any(cut & self.model.terms.ends.operands([terms.Place(factor)]) for factor in shared & own)

    def _end(self, term: terms.Term) -> terms.End | None:
        """The place where the graph of a term ends, if the author expects one."""
        had = [
            end for end in term.found.ends if end.cut is not terms.Cut.SHAPED and self.model.terms.ends.had_graph(end)
        ]
        cuts, meant = {end.cut for end in had}, {terms.Cut.DETACHED}
        of_a_reference = {*meant, terms.Cut.NUMBER, terms.Cut.NEW, terms.Cut.NO_GRAD}
        if not had or term.site is None:
            return None
        if term.is_subtracted and cuts <= of_a_reference and (cuts <= meant or not self._is_weighted(term.site)):
            return None  # the reference of a term: `(new - old).mean()`
        if cuts <= meant and not _is_computed(term) and not self._is_weighted_loss(term, had):
            return None
        return min(had, key=lambda end: end.place.value.order)

    def _is_weighted_loss(self, term: terms.Term, ended: list[terms.End]) -> bool:
        """Whether a term is a detached loss times a weight, as only a part of an objective has: `loss.detach() * w`."""
        cut = values.resolved(ended[0].place.value)
        if len(ended) != 1 or term.is_subtracted or term.site is None:
            return False
        if not isinstance(cut, values.Tensor) or cut.site is None or not cut.parents:
            return False
        node = self.model.tree.own_node(cut.site)
        around = self.model.tree.parent(node) if node is not None else None
        is_weighted = isinstance(around, ast.BinOp) and isinstance(around.op, ast.Mult)
        return (is_weighted or self._is_weighted(term.site)) and _is_own_loss(values.resolved(cut.parents[0]))

    def _is_weighted(self, site: python_ast.Site) -> bool:
        """Whether a term has a factor of its own, as a part of an objective has: `- 0.01 * entropy`."""
        node = self.model.tree.own_node(site)
        return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)

    # -- terms of other networks ---------------------------------------------------------------------------

    def _foreign_terms(self, trace: program.Trace) -> Iterator[ForeignTerm]:
        """The terms of all losses in a trace that are cut from the networks which their steps update."""
        for backward in trace.of(events.Backward):
            if not backward.undecided:
                yield from self._foreign_of(trace, backward)

    def _foreign_of(self, trace: program.Trace, backward: events.Backward) -> Iterator[ForeignTerm]:
        """The terms that no step learns from, although one of them depends on what the step trains."""
        found = [term for term in self.model.terms.of(backward.loss) if term.learns is not values.Answer.NO]
        steps = self._steps(trace, backward) if len(found) > 1 else []
        held = [self.model.ownership.held_by(values.resolved(step.optimizer)) for step in steps]
        ours = {module for modules, _ in held for module in modules}
        if not ours or not all(is_known for _, is_known in held):
            return
        own = [term for term in found if self.model.ownership.overlap(ours, self._modules(term)[0])]
        for term in found if own else ():
            cut = self._cut(term, ours) if term not in own and self._is_foreign(term, ours) else None
            if cut is not None and cut.site is not None and term.site is not None:
                yield ForeignTerm(term.site, cut.site, steps[0], isinstance(cut, values.NewTensor))

    def _steps(self, trace: program.Trace, backward: events.Backward) -> list[events.Step]:
        """The steps that use the gradients of a backward; none if some of that is unknown."""
        steps = {step: self.model.gradients.uses(trace, step, backward) for step in trace.of(events.Step)}
        if any(step.manual or answer is values.Answer.UNKNOWN for step, answer in steps.items()):
            return []
        return [step for step, answer in steps.items() if answer is values.Answer.YES]

    def _is_foreign(self, term: terms.Term, ours: set[values.Value]) -> bool:
        """Whether a term has a graph, and the graph surely reaches none of these networks."""
        modules, is_complete = self._modules(term)
        is_known = is_complete and bool(modules) and all(map(_is_known, modules | ours))
        return is_known and not self.model.ownership.overlap(ours, modules)

    def _modules(self, term: terms.Term) -> tuple[set[values.Value], bool]:
        graph = self.model.tracking.pass_through(term.place.value)
        return self.model.ownership.modules_in({item for item in graph if not _only_passes_on(item)})

    def _cut(self, term: terms.Term, ours: set[values.Value]) -> values.Value | None:
        """The result that is cut from an output of these networks, on the way to a term: detached, or a sample."""
        for value in self.model.terms.came_from(term):
            before = self._before(value)
            if before and self.model.ownership.overlap(ours, self.model.ownership.modules_in(before)[0]):
                return value
        return None

    def _before(self, value: values.Value) -> set[values.Value]:
        """The graph that a detached result, or a sample of a distribution, had before."""
        if isinstance(value, values.NewTensor):
            _, _, source = self.model.program.observations.calls.get(value, ("", None, None))
            return lineage.ancestry([source]) if source is not None and _is_distribution(source) else set()
        is_cut = isinstance(value, values.Tensor) and value.op in _CUTS
        if not is_cut or value.site is None or self._is_of_layer(value.site):
            return set()
        return lineage.ancestry([value])

    def _is_of_layer(self, site: Site) -> bool:
        """Whether a place is in the `forward` of a module."""
        method = self.model.definitions.method_around(self.model.tree.node(site))
        owner = method.owner if method is not None else None
        return site.inner is not None or (owner is not None and self.model.program.is_module_class(owner))

    # -- terms of sums that are only shown -----------------------------------------------------------------

    def _left_out_terms(self, trace: program.Trace) -> Iterator[LeftOutTerm]:
        """The terms that no backward pass of a trace reaches."""
        backwards = trace.of(events.Backward)
        if not backwards or any(item.undecided for item in backwards):
            return
        whole = ((item, self.model.terms.of(item.loss)) for item in backwards)
        passes = {found[0].place.value: item for item, found in whole if len(found) == 1}
        used = self._used(trace)
        for total in self._shown:
            if total not in used:
                yield from self._left_out_of(total, passes, used)

    @cached_property
    def _shown(self) -> list[values.Tensor]:
        """The sums that a program converts to numbers."""
        operands = (item for _, parts, _ in self.model.program.observations.numbers.values() for item in parts)
        sums = dict.fromkeys(map(values.resolved, operands))
        return [item for item in sums if isinstance(item, values.Tensor) and item.op == operators.ADD]

    def _left_out_of(
        self, total: values.Tensor, passes: dict[values.Value, events.Backward], used: set[values.Value]
    ) -> Iterator[LeftOutTerm]:
        found = self.model.terms.of(total)
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
            if self.model.ownership.may_go_backward(call):
                found += call.value.parents
        return {value for item in found for value in self.model.tracking.graph(item)}

    def report_DeadTerm(self, dead: DeadTerm) -> None:
        ended = dead.end.place.value.site
        assert dead.term.site is not None and ended is not None
        self.report(
            dead.term.site,
            f"no parameter learns from the term `{self._code(dead.term.site)}`: {self._reason(dead.end)}",
            related=[(ended, "its graph ends here"), (dead.used, "`backward` of the loss runs here")],
            help="use differentiable operators, on values that keep their graph",
        )

    def report_ForeignTerm(self, term: ForeignTerm) -> None:
        cut = "it is drawn by `sample` here, without a graph" if term.is_drawn else "it is detached here"
        self.report(
            term.site,
            f"no parameter of `{term.step.name}` learns from the term `{self._code(term.site)}`, which is "
            + ("computed from a sample" if term.is_drawn else "detached"),
            related=[(term.cut, cut), (term.step.site, "this step uses the gradients of the loss")],
            help="draw with `rsample`" if term.is_drawn else "compute the term from a result that is not detached",
        )

    def report_LeftOutTerm(self, term: LeftOutTerm) -> None:
        self.report(
            term.site,
            f"no parameter learns from the term `{self._code(term.site)}`: `backward` runs on another term of this sum",
            related=[(term.backward, "`backward` of the other term runs here")],
            help="call `backward` on the sum",
            confidence=Confidence.LOW,
        )

    def _reason(self, end: terms.End) -> str:
        value, cut = end.place.value, terms.Cut
        if end.cut is cut.COMPARED:
            return "a comparison has no gradient"
        if end.cut is cut.NO_GRAD:
            return "it is computed under `no_grad`"
        node = self.model.tree.node(value.site)
        name = python_ast.called_name(node) if isinstance(node, ast.Call) else getattr(value, "op", "")
        if end.cut is cut.WITHOUT_GRADIENT:
            return f"`{name}` has no gradient"
        if name == "grad":
            return "`grad` returns gradients without a graph unless `create_graph=True`"
        if end.cut is cut.FLAT:
            return f"the gradient of `{name}` is zero"
        return f"`{name}` cuts it from its graph"

    def _code(self, site: python_ast.Site) -> str:
        return " ".join(self.model.tree.code(site).split())


def _products(whole: values.Value) -> Iterator[values.Value]:
    """The products that a loss sums."""
    stack, seen = [values.resolved(whole)], set[values.Value]()
    while stack:
        value = stack.pop()
        if isinstance(value, values.Tensor) and value.op in terms.RESCALING and value not in seen:
            seen.add(value)
            stack += map(values.resolved, value.parents)
            if value.op == operators.MUL:
                yield value


def _is_computed(term: terms.Term) -> bool:
    """Whether a term is computed from a detached value: by a loss, or by operators that do more than rescale."""
    ends = {end.place.value for end in term.found.ends}
    return any(terms.is_loss(value) or _computes(value) for value in term.found.before - ends)


def _is_own_loss(value: values.Value) -> bool:
    """Whether a loss of PyTorch computes a value, perhaps as the result of a module of the program."""
    for _ in range(_MOST_MODULES):
        if terms.is_loss(value) or not isinstance(value, values.ModuleOutput) or value.body is None:
            break
        value = values.resolved(value.body)
    return terms.is_loss(value)


def _computes(value: values.Value) -> bool:
    if not isinstance(value, values.Tensor) or isinstance(value, values.WithoutOperator):
        return False
    return value.op in autograd_table.OPERATORS and value.op not in terms.RESCALING


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


def _shares_graph(term: terms.Term, used: set[values.Value]) -> bool:
    """Whether a term has a graph from an output of a network that the trained term uses, too."""
    if term.learns is values.Answer.NO:
        return False
    return any(
        not used.isdisjoint({place.value, *place.calls, *map(values.resolved, place.value.parents)})
        for place in term.found.open
    )
