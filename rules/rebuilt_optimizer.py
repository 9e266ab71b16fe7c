"""Optimizers and gradient scalers that each epoch or step creates anew."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import definitions, events, lineage, program, values
from torchlint.model.queries import names
from torchlint.pytorch import triggers
from torchlint.syntax import python_ast

_STATELESS = frozenset({"SGD"})
_CLOSED = frozenset({"LBFGS"})
"""Optimizers that may start from nothing in each batch: their state describes one loss."""
_ANY = "[None]"
"""The label of an element whose index is not known."""
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
    is_each_step: bool


class RebuiltScaler(NamedTuple):
    """Each iteration of `loop` creates the gradient scaler of `step` at `made`."""

    made: python_ast.Site
    step: events.Step
    loop: events.Loop


class RebuiltOptimizer(Rule):
    """Each epoch or step creates the optimizer anew, so its moments are lost.

    ## What it does
    Finds optimizers with state, such as Adam or SGD with momentum, that a loop over epochs creates in each iteration
    for the same network. In the iteration, the optimizer trains for one pass over the data, or takes a single step.
    Also finds a `GradScaler` that each step creates anew. torchlint follows function calls, even into other files.

    Not reported if one of these holds:

    - The epoch number selects the data, as in `loaders[i]`.
    - An argument of the optimizer depends on the iteration, such as a learning rate.
    - The iteration changes the network itself: it loads, resets, prunes or freezes weights.
    - The name of the loop variable says that each iteration is a training run of its own: `fold`, `task`, `round`.

    ## Why is this bad?
    Adam's moments and the momentum start from zero again. Adam's first steps are then large, so the loss may jump at
    the start of each epoch. A scheduler of the old optimizer no longer has any effect.

    A new gradient scaler starts with a scale of 65,536. If the gradients overflow at this scale, every step is skipped.

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
    `torchlint verify` confirms the finding if the line creates a second optimizer that updates the same parameters. It
    refutes the finding if the program ends and the line has created no such second optimizer.

    ## References
    - [torch.optim](https://docs.pytorch.org/docs/stable/optim.html#how-to-use-an-optimizer): "To use torch.optim you
      have to construct an optimizer object that will hold the current state"
    """

    code = "TL138"
    category = Category.SUSPICIOUS
    triggers = (triggers.BACKWARD, (b"optim", b"GradScaler"), (b"range", b"count", b"GradScaler"))

    def ask(self) -> Iterator[Rebuilt | RebuiltScaler]:
        done: set[python_ast.Site] = set()
        for trace in [] if self.model.is_test else self.model.program.traces:
            for step in trace.of(events.Step):
                for found in (self._rebuilt(trace, step), self._rebuilt_scaler(step)):
                    if found is not None and found.made not in done:
                        done.add(found.made)
                        yield found

    def _rebuilt_scaler(self, step: events.Step) -> RebuiltScaler | None:
        scaler = values.resolved(step.scaler) if step.scaler is not None else None
        call = self.model.tree.node(scaler.site) if scaler is not None and scaler.site is not None else None
        if scaler is None or scaler.site is None or not isinstance(call, ast.Call):
            return None
        made_in = events.repeating(tuple(loop for loop in scaler.loops if isinstance(loop, events.Loop)))
        is_scaler = python_ast.called_name(call) == "GradScaler" and not any(
            item.arg == "enabled" for item in call.keywords
        )
        if not made_in or not is_scaler or made_in != events.repeating(step.loops):
            return None
        return RebuiltScaler(scaler.site.here, step, made_in[-1])

    def _rebuilt(self, trace: program.Trace, step: events.Step) -> Rebuilt | None:
        optimizer = values.resolved(step.optimizer)
        if not isinstance(optimizer, values.Optimizer) or optimizer.info is not None or optimizer.site is None:
            return None
        around = tuple(loop for loop in optimizer.loops if isinstance(loop, events.Loop))
        made_in, stepped_in = events.repeating(around), events.repeating(step.loops)
        call = self.model.tree.node(optimizer.site)
        if not made_in or not isinstance(call, ast.Call) or not self._has_state(optimizer.name, call):
            return None
        is_each_step = made_in == stepped_in and optimizer.name not in _CLOSED
        if not (self._are_steps(made_in) if is_each_step else self._are_epochs(made_in, stepped_in)):
            return None
        loop = made_in[-1]
        is_plain = not self._is_conditional(call, optimizer.site, loop) and self._is_older(optimizer, loop)
        if not is_plain or self._depends(call, optimizer.site, loop, is_each_step):
            return None
        return Rebuilt(optimizer.site.here, step, loop, step.name or "the optimizer", is_each_step)

    def _are_epochs(self, made_in: list[events.Loop], stepped_in: list[events.Loop]) -> bool:
        """Whether an optimizer is created in each epoch, and steps in a loop over data that all epochs share."""
        if len(made_in) != 1 or len(stepped_in) != 2 or made_in[0] is not stepped_in[0]:
            return False
        epochs, batches = stepped_in
        are_batches = not self._counts(batches) or self._cuts(batches)
        return self._counts(epochs) and are_batches and not self._selects(epochs, batches)

    def _cuts(self, loop: events.Loop) -> bool:
        """Whether a loop cuts data into batches: `range(0, n, batch_size)`."""
        node = self.model.tree.own_node(loop.site)
        return (
            isinstance(node, ast.For)
            and isinstance(node.iter, ast.Call)
            and python_ast.called_name(node.iter) in _COUNTING
            and len(node.iter.args) == 3
        )

    def _are_steps(self, loops: list[events.Loop]) -> bool:
        """Whether loops repeat single steps: over numbers, or over epochs and their batches."""
        if len(loops) == 1:
            return self._counts(loops[0])
        return len(loops) == 2 and self._counts(loops[0]) and not self._selects(*loops)

    def _selects(self, epochs: events.Loop, batches: events.Loop) -> bool:
        """Whether the number of the epoch selects the data."""
        node = self.model.tree.own_node(epochs.site)
        counters = python_ast.names_in(node.target) if isinstance(node, ast.For) else set()
        made = lineage.ancestry([batches.over]) if batches.over is not None else ()
        return any(item.label in counters or (isinstance(item, values.Element) and item.label == _ANY) for item in made)

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

    def _is_conditional(self, call: ast.Call, site: python_ast.Site, loop: events.Loop) -> bool:
        """Whether some iterations may keep the optimizer."""
        around = self.model.tree.node(loop.site)
        tree = self.model.tree if site.inner is None else site.inner.tree
        for item in tree.ancestors(call):
            if item is around or isinstance(item, python_ast.SCOPES):
                return False
            if isinstance(item, (ast.If, ast.IfExp, ast.Match, *python_ast.TRIES)):
                return True
        return False

    def _depends(self, call: ast.Call, site: python_ast.Site, loop: events.Loop, is_each_step: bool) -> bool:
        """Whether the iteration decides what the optimizer is for: by its arguments, its name, or its other calls."""
        node = self.model.tree.own_node(loop.site)
        if not isinstance(node, ast.For):
            return True
        inside = [item for statement in node.body for item in python_ast.walk(statement)]
        stored = {item.id for item in inside if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store)}
        counters = python_ast.names_in(node.target)
        calls = [item for item in inside if isinstance(item, ast.Call)]
        if any(map(_PHASES.search, counters)) or any(_CHANGING.search(python_ast.called_name(item)) for item in calls):
            return True
        if any(isinstance(item, ast.Attribute) and item.attr == "requires_grad" for item in inside):
            return True
        indices = (item.slice for item in inside if isinstance(item, ast.Subscript))
        if any(not counters.isdisjoint(python_ast.names_in(item)) for item in indices):
            return True
        if call in calls:
            return not python_ast.names_in(call).isdisjoint(stored | counters)
        around = self._maker(call, site)
        passed = [item for item in calls if around is not None and python_ast.called_name(item) == around.name]
        if around is None or not passed:
            return around is None or not self._is_made_further_in(around, calls)
        if len(passed) > 1 or not is_each_step:
            given = {name for item in passed for name in python_ast.names_in(item)}
            return not given.isdisjoint(stored) or self._reads(passed[0], around, call, counters)
        return self._reads(passed[0], around, call, counters | stored)

    def _maker(self, call: ast.Call, site: python_ast.Site) -> definitions.FunctionInfo | None:
        """The function that creates the optimizer; of another file only if this file calls it itself."""
        if site.inner is None:
            return self.model.definitions.function_around(call)
        caller = self.model.tree.node(site.here)
        found = self.model.definitions.defined(python_ast.dotted(caller.func)) if isinstance(caller, ast.Call) else None
        is_it = isinstance(found, definitions.FunctionInfo) and site.inner.tree.function_around(call) is found.node
        return found if is_it and isinstance(found, definitions.FunctionInfo) else None

    def _is_made_further_in(self, maker: definitions.FunctionInfo, calls: list[ast.Call]) -> bool:
        """Whether functions that an iteration calls pass nothing to the function that creates the optimizer."""
        functions = (names.function(item.func, self.model.definitions) for item in calls)
        inner = [node for function in functions if function is not None for node in python_ast.walk(function.node)]
        made = [item for item in inner if isinstance(item, ast.Call) and python_ast.called_name(item) == maker.name]
        return bool(made) and not any(item.args or item.keywords for item in made)

    def _reads(self, passed: ast.Call, around: definitions.FunctionInfo, call: ast.Call, variables: set[str]) -> bool:
        """Whether an argument of the optimizer is a parameter that receives one of some variables."""
        if any(isinstance(item, ast.Starred) for item in passed.args):
            return True
        parameters = around.parameters[1 if around.is_method else 0 :]
        pairs = [*zip(parameters, passed.args, strict=False), *((item.arg, item.value) for item in passed.keywords)]
        counted = {name for name, item in pairs if variables & python_ast.names_in(item)}
        nodes = [item for item in python_ast.walk(around.node) if isinstance(item, ast.Name)]
        local = {item.id for item in nodes if isinstance(item.ctx, ast.Store)}
        read = python_ast.names_in(call)
        return not read.isdisjoint(counted) or (bool(counted) and not read.isdisjoint(local))

    def report_RebuiltScaler(self, rebuilt: RebuiltScaler) -> None:
        self.report(
            rebuilt.made,
            "each step creates the gradient scaler anew, so its scale never adapts",
            related=[(rebuilt.loop.site, "this loop repeats it"), (rebuilt.step.site, "the scaler steps here")],
            help="create the scaler once, before the loop",
        )

    def report_Rebuilt(self, rebuilt: Rebuilt) -> None:
        what = "step" if rebuilt.is_each_step else "epoch"
        self.report(
            rebuilt.made,
            f"each {what} creates `{rebuilt.name}` anew: its moments start from zero again",
            related=[(rebuilt.loop.site, "this loop repeats it"), (rebuilt.step.site, "it steps here")],
            help="create the optimizer once, before the loop",
        )
