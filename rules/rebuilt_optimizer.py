"""Optimizers that each epoch creates anew."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import events, program, values
from torchlint.pytorch import triggers
from torchlint.syntax import python_ast

_STATELESS = frozenset({"SGD"})
_COUNTING = frozenset({"range", "trange", "count"})
_PHASES = LazyPattern(r"(?i)round|cycle|stage|task|fold|trial|run|seed|rep|generation|iter|client|phase|restart|outer")
"""Names of loops whose iterations train anew on purpose."""
_CHANGING = LazyPattern(
    r"(?i)load|reset|init|prun|freez|grow|expand|aggregat|averag|merge|deepcopy|requires_grad|stage"
)
"""Names of calls that change a network between two epochs."""


class Rebuilt(NamedTuple):
    """The optimizer of `step` is created at `made` in each iteration of `loop`."""

    made: python_ast.Site
    step: events.Step
    loop: events.Loop
    name: str


class RebuiltOptimizer(Rule):
    """Each epoch creates the optimizer anew, so its moments are lost.

    ## What it does
    Finds optimizers with state (Adam, SGD with momentum) that a loop over epochs creates in each iteration for a
    network that exists before the loop. The iteration trains for one pass over its data. torchlint follows function
    calls.

    Not reported when:

    - An argument of the optimizer depends on the iteration, such as a learning rate.
    - The iteration changes the network itself: it loads, resets, prunes or freezes.
    - The name of the loop's variable says that each iteration is a training of its own: `fold`, `task`, `round`.

    ## Why is this bad?
    Adam's moments and the momentum start from zero again. Adam's first steps are then large, so the loss may jump at
    the start of each epoch. A schedule of the old optimizer no longer has any effect.

    ## Example
    ```python
    import torch
    import torch.nn.functional as F

    def train(model, loader, epochs):
        for epoch in range(epochs):
            optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
    ```

    Use instead:
    ```python
    import torch
    import torch.nn.functional as F

    def train(model, loader, epochs):
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        for epoch in range(epochs):
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
    ```

    ## What verify shows
    Confirmed by a second optimizer from the line that steps on the same parameters. Refuted if there is none
    until the program ends.

    ## References
    - [torch.optim](https://docs.pytorch.org/docs/stable/optim.html#how-to-use-an-optimizer): "To use torch.optim you
      have to construct an optimizer object that will hold the current state"
    """

    code = "TL138"
    category = Category.SUSPICIOUS
    triggers = (triggers.BACKWARD, (b"optim",), (b"range", b"count"))

    def ask(self) -> Iterator[Rebuilt]:
        done: set[python_ast.Site] = set()
        for trace in [] if self.model.is_test else self.model.program.traces:
            for step in trace.of(events.Step):
                found = self._rebuilt(trace, step)
                if found is not None and found.made not in done:
                    done.add(found.made)
                    yield found

    def _rebuilt(self, trace: program.Trace, step: events.Step) -> Rebuilt | None:
        optimizer = values.resolved(step.optimizer)
        if not isinstance(optimizer, values.Optimizer) or optimizer.info is not None or optimizer.site is None:
            return None
        around = tuple(loop for loop in optimizer.loops if isinstance(loop, events.Loop))
        made_in, stepped_in = events.repeating(around), events.repeating(step.loops)
        if len(made_in) != 1 or len(stepped_in) != 2 or made_in[0] is not stepped_in[0]:
            return None
        call = self.model.tree.own_node(optimizer.site)
        if not isinstance(call, ast.Call) or not self._has_state(optimizer.name, call):
            return None
        loop = made_in[0]
        is_plain = self._counts(loop) and not self._counts(stepped_in[1]) and not self._is_conditional(call, loop)
        if not is_plain or not self._is_older(optimizer, loop) or self._depends(call, step, loop):
            return None
        return Rebuilt(optimizer.site, step, loop, step.name or "the optimizer")

    def _has_state(self, name: str, call: ast.Call) -> bool:
        """Whether an optimizer has more than its learning rate to remember."""
        if name not in _STATELESS:
            return True
        momentum = [item.value for item in call.keywords if item.arg == "momentum"]
        return bool(momentum) and getattr(momentum[0], "value", None) != 0

    def _counts(self, loop: events.Loop) -> bool:
        """Whether a loop iterates over numbers."""
        node = self.model.tree.own_node(loop.site)
        calls = (
            [item for item in python_ast.walk(node.iter) if isinstance(item, ast.Call)]
            if isinstance(node, ast.For)
            else []
        )
        return any(python_ast.called_name(call) in _COUNTING for call in calls)

    def _is_older(self, optimizer: values.Optimizer, loop: events.Loop) -> bool:
        """Whether the optimizer's networks certainly exist before a loop."""
        held, all_known = self.model.ownership.held_by(optimizer)
        return all_known and bool(held) and all(loop not in item.loops for item in held)

    def _is_conditional(self, call: ast.Call, loop: events.Loop) -> bool:
        """Whether some iterations may keep the optimizer."""
        around = self.model.tree.node(loop.site)
        for item in self.model.tree.ancestors(call):
            if item is around or isinstance(item, python_ast.SCOPES):
                return False
            if isinstance(item, (ast.If, ast.IfExp, ast.Match, *python_ast.TRIES)):
                return True
        return False

    def _depends(self, call: ast.Call, step: events.Step, loop: events.Loop) -> bool:
        """Whether the iteration decides what the optimizer is for: by its arguments, its name, or its other calls."""
        node = self.model.tree.own_node(loop.site)
        if not isinstance(node, ast.For):
            return True
        inside = [item for statement in node.body for item in python_ast.walk(statement)]
        stored = {item.id for item in inside if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store)}
        counters = {item.id for item in python_ast.walk(node.target) if isinstance(item, ast.Name)}
        calls = [item for item in inside if isinstance(item, ast.Call)]
        if any(map(_PHASES.search, counters)) or any(_CHANGING.search(python_ast.called_name(item)) for item in calls):
            return True
        if any(isinstance(item, ast.Attribute) and item.attr == "requires_grad" for item in inside):
            return True
        around = self.model.definitions.function_around(call)
        read = {item.id for item in python_ast.walk(call) if isinstance(item, ast.Name)}
        if call in calls:
            return not read.isdisjoint(stored | counters)
        passed = [item for item in calls if around is not None and python_ast.called_name(item) == around.name]
        given = {item.id for one in passed for item in python_ast.walk(one) if isinstance(item, ast.Name)}
        return not passed or not given.isdisjoint(stored) or self._reads_counter(passed[0], call, counters)

    def _reads_counter(self, passed: ast.Call, call: ast.Call, counters: set[str]) -> bool:
        """Whether an argument of the optimizer is a parameter that receives the number of the epoch."""
        around = self.model.definitions.function_around(call)
        if around is None or any(isinstance(item, ast.Starred) for item in passed.args):
            return True
        names = around.parameters[1 if around.is_method else 0 :]
        pairs = [*zip(names, passed.args, strict=False), *((item.arg, item.value) for item in passed.keywords)]
        counted = {
            name for name, item in pairs if counters & {one.id for one in ast.walk(item) if isinstance(one, ast.Name)}
        }
        local = {
            item.id
            for item in python_ast.walk(around.node)
            if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store)
        }
        read = {item.id for item in python_ast.walk(call) if isinstance(item, ast.Name)}
        return not read.isdisjoint(counted) or (bool(counted) and not read.isdisjoint(local))

    def report_Rebuilt(self, rebuilt: Rebuilt) -> None:
        self.report(
            rebuilt.made,
            f"each epoch creates `{rebuilt.name}` anew: its moments start from zero again",
            related=[(rebuilt.loop.site, "this loop repeats it"), (rebuilt.step.site, "it steps here")],
            help="create the optimizer once, before the loop",
        )
