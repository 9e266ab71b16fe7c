"""Hidden states that carry the graph of the previous batch."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, TypeGuard

from torchlint import Category, Rule, edits
from torchlint.model import events, module_values, program, values
from torchlint.pytorch import triggers
from torchlint.syntax import python_ast
from torchlint.syntax.python_ast import site_of, walk

if TYPE_CHECKING:
    from torchlint.index import FileIndex


class CarriedGraph(NamedTuple):
    """`backward` frees the graph of `maker`, which the next loss needs because it depends on `state`."""

    maker: values.Value
    user: values.Value
    """The first value computed from the previous state."""
    state: values.Value
    name: str
    """The name of the state in the program; may be empty."""
    carried: values.Value
    """The value of the state in the next iteration, or at the next call."""
    backward: events.Backward
    loop: events.Loop | None
    """None where each call to a method is an iteration."""


class UndetachedHiddenState(Rule):
    """A hidden state is not detached between batches: the second backward raises.

    ## What it does
    Finds a value that one iteration computes and the next iteration uses without detaching it, while each iteration
    calls `backward`. Examples are the hidden state of a recurrent network and a smoothed loss. The value may also be an
    attribute:

    - A method reads the attribute, calls `backward`, and sets the attribute for the next call.
    - The `forward` of a module reads and sets the attribute, and the loop neither resets nor detaches it.

    With `retain_graph=True` there is no error, but the graph grows with each batch: see `retain-graph-in-loop`.

    ## Why is this bad?
    The loss of the second batch depends on the graph of the first batch, which the first `backward` has freed. PyTorch
    raises "Trying to backward through the graph a second time". If the optimizer steps in between, the error may say
    instead that an in-place operation modified a tensor.

    ## Example
    ```python
    import torch
    from torch import nn

    def train(chunks, criterion):
        rnn, head = nn.GRU(32, 64), nn.Linear(64, 10)
        optimizer = torch.optim.SGD([*rnn.parameters(), *head.parameters()], lr=0.1)
        h = torch.zeros(1, 8, 64)
        for x, y in chunks:
            optimizer.zero_grad()
            out, h = rnn(x, h)
            criterion(head(out), y).backward()
            optimizer.step()
    ```

    Use instead:
    ```python
    import torch
    from torch import nn

    def train(chunks, criterion):
        rnn, head = nn.GRU(32, 64), nn.Linear(64, 10)
        optimizer = torch.optim.SGD([*rnn.parameters(), *head.parameters()], lr=0.1)
        h = torch.zeros(1, 8, 64)
        for x, y in chunks:
            optimizer.zero_grad()
            out, h = rnn(x, h)
            criterion(head(out), y).backward()
            optimizer.step()
            h = h.detach()
    ```

    ## Fix safety
    The fix detaches the state. It is unsafe, because gradients then no longer flow back into earlier batches. That is
    usually what you want.

    ## What verify shows
    `torchlint verify` confirms the finding if PyTorch raises one of these errors in the `backward` after the line. It
    refutes the finding if three backward passes in the function work without an error and free their graphs.

    ## References
    - [Word language model](https://github.com/pytorch/examples/tree/main/word_language_model): `repackage_hidden`
    """

    code = "TL203"
    category = Category.CORRECTNESS
    triggers = (triggers.BACKWARD,)

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        return index.goes_backward

    def ask(self) -> Iterator[CarriedGraph]:
        """The state in the next iteration, or at the next call. Only certain steps count for this error."""
        for trace in [] if self.model.program.is_test else self.model.program.traces:
            for backward in trace.of(events.Backward):
                yield from islice(self._of(trace, backward), 1)

    def _of(self, trace: program.Trace, backward: events.Backward) -> Iterator[CarriedGraph]:
        if backward.keeps_graph is not False:
            return
        graph = self.model.sure_graphs.of(backward.loss)
        loop = backward.loops[-1] if backward.loops else None
        if loop is not None and not loop.implicit and events.is_in_each(loop, backward):
            for output, kept in self.model.module_states.dragged(graph, loop):
                yield CarriedGraph(output, kept.user, kept.before, f"self.{kept.name}", kept.after, backward, loop)
        pairs = self._through_loop(graph, loop, backward) if loop is not None else self._through_object(graph, trace)
        for state, carried in pairs:
            shared = self._with_wholes(graph) & self._with_wholes(self.model.sure_graphs.of(carried))
            makers = self._makers(shared, trace, backward)
            if makers and not self._may_be_cut(trace, loop, state, carried):
                maker = max(makers, key=lambda item: item.order)
                yield CarriedGraph(maker, _user(graph, state) or maker, state, state.label, carried, backward, loop)

    def _makers(self, shared: set[values.Value], trace: program.Trace, backward: events.Backward) -> set[values.Value]:
        """The parts of a graph that certainly save tensors which their backward frees."""
        trained = {
            item for item in shared if isinstance(item, values.Tensor) and self.model.sure_graphs.is_trained_call(item)
        }
        computed = self.model.sure_graphs.computed(trace, backward) if backward.loops else set()
        return trained | (shared & computed & self.model.sure_graphs.tracking.backpropagated)

    def _with_wholes(self, graph: set[values.Value]) -> set[values.Value]:
        """A graph, with the module calls whose results it contains, if they have a graph."""
        parts = (item for item in graph if isinstance(item, values.Component))
        return graph | {item.parents[0] for item in parts if len(self.model.sure_graphs.of(item)) > 1}

    # -- from iteration to iteration, from call to call ------------------------------------------------------

    def _through_loop(
        self, graph: set[values.Value], loop: events.Loop, backward: events.Backward
    ) -> Iterator[tuple[values.Value, values.Value]]:
        """The previous iteration's values in a graph, where each iteration goes backward, with their new values."""
        if loop.implicit or not events.is_in_each(loop, backward):
            return
        for phi in _by_age(graph):
            if isinstance(phi, values.Phi) and phi.loop is loop and len(phi.parents) == 2:
                yield phi, phi.parents[1]

    def _through_object(
        self, graph: set[values.Value], trace: program.Trace
    ) -> Iterator[tuple[values.Value, values.Value]]:
        """The attributes of an object that one of its methods reads, goes backward through, and reassigns."""
        if trace.receiver is None or trace.root is None or trace.root.owner is None or trace.root.name == "__init__":
            return
        for item in _by_age(graph):
            attribute = isinstance(item, values.Attribute) and item.parents[0] is trace.receiver
            carried = trace.heap.get((trace.receiver, item.label)) if attribute else None
            if carried is not None and not self._is_used_elsewhere(trace, item.label):
                yield item, carried

    def _is_used_elsewhere(self, trace: program.Trace, name: str) -> bool:
        """Whether code other than `__init__` and this method reads or writes an attribute of this name."""
        assert trace.root is not None
        nodes = (node for node in self.model.program.nodes(ast.Attribute) if node.attr == name)
        around = {self.model.program.definitions.function_around(node) for node in nodes}
        return any(item is not trace.root and (item is None or item.name != "__init__") for item in around)

    def _may_be_cut(
        self, trace: program.Trace, loop: events.Loop | None, state: values.Value, carried: values.Value
    ) -> bool:
        """Whether any code may detach the state.

        Examples are `detach_`, a call that receives it, a hook, or an assignment to its attribute.
        """
        site = loop.site if loop is not None else site_of(trace.root.node) if trace.root is not None else None
        body = self.model.program.tree.node(site)
        attributes = [node for node in walk(body) if isinstance(node, ast.Attribute)] if body else []
        if any(node.attr in ("detach_", "set_") or _changes_data(node) for node in attributes):
            return True
        edge = loop.edge if loop is not None else trace.edge
        if edge is None or any(owner in edge.contents for owner, name in edge.attributes if name == state.label):
            return True
        if any(map(module_values.is_hooked, module_values.modules_of(self.model.sure_graphs.of(carried)))):
            return True
        calls = (
            [event for event in events.events_in(loop.body) if isinstance(event, events.Call)]
            if loop
            else trace.of(events.Call)
        )
        same = {state, carried, *values.inputs_of(state), *carried.parents}
        return any(not same.isdisjoint(_arguments(event)) for event in calls)

    def report_CarriedGraph(self, carried: CarriedGraph) -> None:
        site = carried.user.site or carried.maker.site
        assert site is not None
        name = carried.name or "its state"
        again = "batch" if carried.loop is not None else "call"
        related = [(carried.backward.site, "this frees the graph that the next `backward` needs")]
        if carried.loop is not None:
            related.append((carried.loop.site, "in this loop"))
        if carried.maker.site not in (None, site):
            related.append((carried.maker.site, "the graph is built here"))
        self.report(
            site,
            f"`{name}` still carries the previous {again}'s graph: the second `backward` raises",
            related=related,
            help=f"detach `{name}` after the `backward`",
            fix=self._fix(carried, name),
        )

    def _fix(self, carried: CarriedGraph, name: str) -> edits.Change | None:
        """The state detached after the backward, where a loop assigns it to a name as a tensor or tuple of tensors."""
        tree, site = self.model.tree, carried.maker.site
        statement = tree.statement(tree.node(site)) if site is not None else None
        backward = tree.node(carried.backward.site)
        written = self.written(carried.backward.site)
        if carried.loop is None or written is None or not tree.stands_alone(backward):
            return None
        if not isinstance(statement, ast.Assign) or statement not in tree.block(backward):
            return None
        bound = [
            node.id for target in statement.targets for node in python_ast.walk(target) if isinstance(node, ast.Name)
        ]
        module = values.resolved(carried.maker.parents[0]) if carried.maker.parents else carried.maker
        detached = _DETACHED.get((module.name.rpartition(".")[2], len(bound))) if _is_of_torch(module) else None
        if detached is None or bound[-1] != name:
            return None
        code = f"{name} = {detached.format(name)}"
        return edits.Change("detach it after the backward", [edits.InsertAfter(written, code)])


_DETACHED = {
    ("RNN", 2): "{}.detach()",
    ("GRU", 2): "{}.detach()",
    ("RNNCell", 1): "{}.detach()",
    ("GRUCell", 1): "{}.detach()",
    ("LSTM", 2): "tuple(part.detach() for part in {})",
}
"""The state without its graph, by the module that computed it and the number of names for its results."""


def _is_of_torch(module: values.Value) -> TypeGuard[values.Module]:
    return isinstance(module, values.Module) and module.info is None


def _user(graph: set[values.Value], state: values.Value) -> values.Value | None:
    """The first value of a graph computed from a state, if it is in this file."""
    using = (item for item in _by_age(graph) if isinstance(item, values.Tensor) and state in item.parents)
    return next((item for item in using if item.site is not None and item.site.inner is None), None)


def _changes_data(node: ast.Attribute) -> bool:
    """`state.data = ...`; only reading it has no effect on the state."""
    return node.attr == "data" and not isinstance(node.ctx, ast.Load)


def _by_age(values: Iterable[values.Value]) -> list[values.Value]:
    """Values in the order of their creation, and names in program order: the answer is deterministic."""
    return sorted(values, key=lambda item: (item.order, item.label))


def _arguments(call: events.Call) -> set[values.Value]:
    """The arguments of a call, with their contents."""
    found = {
        item for parent in call.value.parents for item in values.inputs_of(parent) if not isinstance(item, values.Plain)
    }
    return found | {element for item in found if isinstance(item, values.Container) for element in item.elements()}
