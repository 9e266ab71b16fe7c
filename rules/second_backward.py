"""Backward passes through a graph that an earlier one has freed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule, edits
from torchlint.model import events, lineage, program, values
from torchlint.model.queries import losses
from torchlint.pytorch import triggers
from torchlint.syntax import python_ast
from torchlint.syntax.python_ast import called_name, dotted, walk

if TYPE_CHECKING:
    from torchlint.index import FileIndex

_TAKING = frozenset({"pop", "popleft", "next", "get"})
"""Calls that return a different element each time."""


class FreedGraph(NamedTuple):
    """`second` runs through `shared`, a part of the graph that `first` freed."""

    first: events.Backward
    second: events.Backward
    shared: values.Value


class RepeatedBackward(NamedTuple):
    """Each iteration of `loop` runs `backward` through `shared`, which was built before the loop."""

    backward: events.Backward
    loop: events.Loop
    shared: values.Value


class SecondBackward(Rule):
    """A second `backward` uses a graph that the first one has freed: it raises.

    ## What it does
    Finds a second `backward` on the same loss, or on another loss from the same call of a module. Also finds a
    `backward` in a loop on a loss that was computed before the loop. Not reported if the first `backward` has
    `retain_graph=True`.

    Reported only if one of these is true. If neither is, the module may be frozen, and then PyTorch raises no error.

    - An optimizer in the file holds the parameters of the module.
    - An iteration calls `backward` twice on the same loss and ends with a step.

    ## Why is this bad?
    `backward` frees the tensors that the graph has saved. The second `backward` raises "Trying to backward through the
    graph a second time". `retain_graph=True` would avoid the error, but costs memory. In a loop, the loss would then
    belong to old weights.

    ## Example
    ```python
    import torch
    import torch.nn.functional as F

    def train(model, loader):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y, z in loader:
            optimizer.zero_grad()
            out = model(x)
            F.cross_entropy(out, y).backward()
            F.mse_loss(out, z).backward()
            optimizer.step()
    ```

    Use instead:
    ```python
    import torch
    import torch.nn.functional as F

    def train(model, loader):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y, z in loader:
            optimizer.zero_grad()
            out = model(x)
            loss = F.cross_entropy(out, y) + F.mse_loss(out, z)
            loss.backward()
            optimizer.step()
    ```

    ## Fix safety
    If two losses are in adjacent lines, the fix calls `backward` once, on their sum. It is unsafe: hooks and logs see
    one backward pass instead of two.

    ## What verify shows
    `torchlint verify` confirms the finding if PyTorch raises the error. It refutes the finding if backward passes from
    the line work without an error.

    ## References
    - [torch.Tensor.backward](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.backward.html): `retain_graph`
    """

    code = "TL106"
    category = Category.CORRECTNESS
    triggers = (triggers.BACKWARD,)

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        return index.goes_backward

    def ask(self) -> Iterator[FreedGraph | RepeatedBackward]:
        for trace in [] if self.model.is_test else self.model.program.traces:
            passes = [item for item in trace.of(events.Backward) if not self._is_special(item)]
            for number, backward in enumerate(passes):
                found = self._repeated(backward) or self._freed(trace, backward, passes[max(0, number - 8) : number])
                if found is not None:
                    yield found

    def _is_special(self, backward: events.Backward) -> bool:
        """Whether an object may define its own `backward`, or the code expects the error."""
        tree = self.model.tree
        node = tree.node(backward.site)
        given = isinstance(node, ast.Call) and bool(node.args) and dotted(node.func) != "torch.autograd.backward"
        given = (given or backward.given_inputs) and backward.framework is None
        return given or tree.expects_error(node)

    def _freed(
        self, trace: program.Trace, second: events.Backward, earlier: list[events.Backward]
    ) -> FreedGraph | None:
        """A backward that always follows one that frees a part of its graph."""
        for first in earlier:
            always = first.path == second.path[: len(first.path)] and not events.apart(first, second)
            if always and first.loops == second.loops and _frees(first):
                shared = {
                    item for item in self._savers(first.loss) & self._savers(second.loss) if _is_one(item, second)
                }
                is_same = values.resolved(first.loss) is values.resolved(second.loss)
                if not shared and is_same and second.framework is None:
                    shared = self.model.sure_graphs.computed(trace, second)
                if shared:
                    return FreedGraph(first, second, max(shared, key=lambda item: item.order))
        return None

    def _repeated(self, backward: events.Backward) -> RepeatedBackward | None:
        """A backward in each iteration of a loop, on a value computed before the loop."""
        loop = backward.loops[-1] if backward.loops else None
        if (
            loop is None
            or not self._is_statement(loop)
            or not _frees(backward)
            or not events.is_in_each(loop, backward)
        ):
            return None
        drawn_from = lineage.ancestry([loop.over]) if loop.over is not None else set()
        if not drawn_from.isdisjoint(self.model.sure_graphs.of(backward.loss)):
            return None  # each iteration has its own loss
        if self._is_another(backward, loop):
            return None
        older = [item for item in self._savers(backward.loss) if loop not in item.loops and _is_one(item, backward)]
        return RepeatedBackward(backward, loop, max(older, key=lambda item: item.order)) if older else None

    def _is_another(self, backward: events.Backward, loop: events.Loop) -> bool:
        """Whether the next iteration may go backward from another loss.

        Its inputs are reassigned later, changed by another method, or taken from a container.
        """
        tree, body = self.model.tree, self.model.tree.node(loop.site)
        statement = tree.node(backward.site)
        if body is None or statement is None:
            return False
        if body not in self._assigned:
            self._assigned[body] = _assigned_in(body)
        todo, names, assigned = list(python_ast.names_read(statement)), set[str](), list[ast.Assign]()
        while todo:
            name = todo.pop()
            new = self._assigned[body].get(name, []) if name not in names else []
            names.add(name)
            assigned += new
            todo += [other for node in new for other in python_ast.names_read(node.value)]
        calls = (item for node in assigned for item in walk(node.value) if isinstance(item, ast.Call))
        if any(called_name(call) in _TAKING for call in calls):
            return True
        is_behind = any(node.lineno > backward.site.line for node in assigned)
        attributes = {name.rpartition(".")[2] for name in names if "." in name}
        return is_behind or not attributes.isdisjoint(self._stored)

    @cached_property
    def _assigned(self) -> dict[ast.AST, dict[str, list[ast.Assign]]]:
        """The assignments of each loop to names."""
        return {}

    @cached_property
    def _stored(self) -> set[str]:
        """The names of the attributes that the program assigns: a `forward` may set `model.loss`."""
        return {node.attr for node in self.model.program.nodes(ast.Attribute) if isinstance(node.ctx, ast.Store)}

    def _is_statement(self, loop: events.Loop) -> bool:
        """Whether a loop is a statement; a comprehension goes backward from its own items."""
        return not loop.implicit and isinstance(self.model.tree.node(loop.site), (ast.For, ast.AsyncFor, ast.While))

    def _savers(self, loss: values.Value) -> set[values.Value]:
        """The parts of a graph whose saved tensors a backward certainly frees: trained modules, PyTorch's losses."""
        graphs = self.model.sure_graphs
        return {item for item in graphs.of(loss) if graphs.is_trained_call(item) or losses.loss_function(item)}

    # -- report --------------------------------------------------------------------------------------------

    def report_FreedGraph(self, freed: FreedGraph) -> None:
        same = values.resolved(freed.first.loss) is values.resolved(freed.second.loss)
        through = "the same graph" if same else "a part of the graph"
        related = [(freed.first.site, "the first one frees it")]
        if not same and freed.shared.site is not None:
            related.append((freed.shared.site, "both losses are computed from this"))
        self.report(
            freed.second.site,
            f"this `backward` runs through {through} that an earlier one freed: it raises",
            related=related,
            help="add the losses and call `backward` once",
            fix=None if same else self._fix(freed),
        )

    def report_RepeatedBackward(self, repeated: RepeatedBackward) -> None:
        related = [(repeated.loop.site, "in this loop")]
        if repeated.shared.site is not None:
            related.insert(0, (repeated.shared.site, "the graph is built here, once"))
        self.report(
            repeated.backward.site,
            "the loss is computed before the loop: the second iteration's `backward` raises",
            related=related,
            help="compute the loss in the loop, with the current weights",
        )

    def _fix(self, freed: FreedGraph) -> edits.Change | None:
        """One backward of the sum, where two named losses go backward in adjacent lines."""
        tree = self.model.tree
        nodes = [tree.node(item.site) for item in (freed.first, freed.second)]
        names = [_loss_name(node) for node in nodes]
        statements = [tree.statement(node) for node in nodes]
        block = tree.block(nodes[0])
        if not all(names) or not all(map(tree.stands_alone, nodes)) or not set(statements) <= set(block):
            return None
        if block.index(statements[1]) - block.index(statements[0]) != 1:
            return None
        written = [self.written(item.site) for item in (freed.first, freed.second)]
        if written[0] is None or written[1] is None:
            return None
        code = f"({names[0]} + {names[1]}).backward()"
        return edits.Change("call `backward` once", [edits.Delete(written[0]), edits.Replace(written[1], code)])


def _assigned_in(body: ast.AST) -> dict[str, list[ast.Assign]]:
    found: dict[str, list[ast.Assign]] = {}
    for node in walk(body):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                found.setdefault(dotted(target), []).append(node)
    return found


def _is_one(made: values.Value, backward: events.Backward) -> bool:
    """Whether a value is built once per backward, not once per list element: `[net(x) for x in batches]`."""
    return made.loops == backward.loops[: len(made.loops)]


def _frees(backward: events.Backward) -> bool:
    return backward.keeps_graph is False


def _loss_name(node: ast.AST) -> str:
    """`loss` of `loss.backward()`."""
    is_bare = isinstance(node, ast.Call) and not node.args and not node.keywords
    func = node.func if is_bare and isinstance(node, ast.Call) else None
    return dotted(func.value) if isinstance(func, ast.Attribute) else ""
