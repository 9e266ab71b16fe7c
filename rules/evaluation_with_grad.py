"""Evaluation loops that build a graph in every iteration and never use it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Confidence, Rule, edits
from torchlint.model import events, lineage, module_values, program, values
from torchlint.model.queries import gradient_users, initial_weights
from torchlint.model.relations import mode
from torchlint.pytorch import api, naming, triggers
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.index import FileIndex

_SAME_TENSOR = frozenset("cpu squeeze view reshape permute float transpose flatten".split())


class UnusedGraphs(NamedTuple):
    """Every iteration of `loop` builds an unused graph at `site`, though `switch` started an evaluation."""

    site: python_ast.Site
    loop: events.Loop
    switch: events.ModeSwitch
    name: str
    grows: bool
    """Whether the graph of an iteration continues that of the previous one."""
    is_own: bool = False
    """Whether a method of the module itself starts the evaluation, for callers that torchlint does not know."""


class EvaluationWithGrad(Rule):
    """An evaluation loop runs the model with gradients on and never uses them.

    ## What it does
    Finds loops after `model.eval()` that call the model with gradients on. No `backward` runs in the loop, and nothing
    stores an output with its graph. (If something does, see `undetached-accumulation`.) torchlint also checks whether
    callers in the file turn gradients off.

    Not reported:

    - code that sets `requires_grad` of parameters or of the input, including networks of an imported module
    - tests, and files that try out their own network before any training
    - outputs that go directly to NumPy, which raises an error unless a caller has turned gradients off

    ## Why is this bad?
    The evaluation needs as much memory as training. `eval()` changes dropout and normalization, but does not turn
    gradients off. Each call stores the activations of all layers for a `backward` that never runs. If each iteration
    uses the previous result, as in text generation, the graph grows with each iteration.

    ## Example
    ```python
    import torch

    def accuracy(model, loader):
        model.eval()
        correct = 0
        for x, y in loader:
            correct += (model(x).argmax(1) == y).sum().item()
        return correct / len(loader.dataset)
    ```

    Use instead:
    ```python
    import torch

    @torch.no_grad()
    def accuracy(model, loader):
        model.eval()
        correct = 0
        for x, y in loader:
            correct += (model(x).argmax(1) == y).sum().item()
        return correct / len(loader.dataset)
    ```

    ## Fix safety
    The fix adds the decorator `torch.no_grad()` to the function. If other code in the function may train, it puts the
    loop into a `with` block instead. It is unsafe: the results then have no graph. `torch.inference_mode()` saves a
    little more, but its tensors can never be used in training.

    ## What verify shows
    `torchlint verify` confirms the finding if graphs are freed without a `backward`, and reports their size. It refutes
    the finding if the calls build no graph, or if a `backward` uses the graphs.

    ## Known limits
    If a module calls `self.eval()` in its own `__init__`, torchlint does not report it, because code that uses the
    module may change the mode. A method that calls `self.eval()` and that nothing in the file calls is only reported
    with `--preview`: its callers may switch gradients off.

    ## References
    - [torch.no_grad](https://docs.pytorch.org/docs/stable/generated/torch.no_grad.html)
    - [Evaluation mode](https://docs.pytorch.org/docs/stable/notes/autograd.html#evaluation-mode-nn-module-eval):
      "completely orthogonal to no-grad mode and inference mode"
    """

    code = "TL204"
    category = Category.PERFORMANCE
    is_free_unless_run = True
    triggers = ((*triggers.EVAL, b"train(False"),)
    calls = frozenset({"eval", "train"})

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        return index.computes_while_evaluating

    def ask(self) -> Iterator[UnusedGraphs]:
        """The first forward pass of each loop whose graphs are never used, for all callers of the pass."""
        if self.model.is_test:
            return
        loops: set[python_ast.Site | python_ast.Inner] = set()
        for graphs in self._all_unused():
            loop = graphs.loop.site.inner or graphs.loop.site
            if loop not in loops:
                if not loops and gradient_users.decides_what_requires_grad(
                    self.model, self.model.tree.node(graphs.loop.site)
                ):
                    return
                loops.add(loop)
                yield graphs

    def _all_unused(self) -> list[UnusedGraphs]:
        """The passes that are unused for every call that leads to them."""
        found: dict[tuple[python_ast.Site, python_ast.Site], UnusedGraphs | None] = {}
        for trace in self.model.program.traces:
            for forward, module in self.model.mode.passes(trace):
                around = events.repeating(forward.loops)
                places = forward.site, forward.place_in(around[-1] if around else None)
                graphs = self._unused(trace, forward, module)
                found[places] = graphs if graphs is None else found.get(places, graphs)
        return [graphs for graphs in found.values() if graphs is not None]

    def _unused(self, trace: program.Trace, forward: mode.Pass, module: values.Value) -> UnusedGraphs | None:
        """A forward pass in an evaluation loop, if it certainly builds graphs that nothing uses."""
        loops = tuple(loop for loop in events.repeating(forward.loops) if not self._is_in_pass(loop, forward))
        settings = self.model.mode.at(trace, forward, module) if loops and self._has_graph(forward) else ()
        evaluations = [item.switch for item in settings if item.switch is not None and item.is_evaluating]
        if not settings or len(evaluations) < len(settings):
            return None
        around = (loop for loop in loops if not any(loop in item.loops for item in evaluations))
        innermost = loops[-1] if loops and not self._may_train(trace, loops[-1], module) else None
        loop = next(around, innermost)
        if loop is None:
            return None
        if loop not in self._useless:
            self._useless[loop] = self._is_useless(trace, loop)
        if not self._useless[loop] or self._measures(loop, forward) or self._shows_elsewhere(loop):
            return None
        if any(map(gradient_users.adapts_itself, values.meanings(module))):
            return None
        if gradient_users.may_be_chosen(self.model, module, _given(forward)):
            return None
        if initial_weights.tries_out(self.model.program, trace, module):
            return None
        places = (*forward.calls[loop.depth :], forward.site)
        site = next((place for place in places if place.inner is None), places[0])
        name, is_own = self._name(site, forward, evaluations[0]), self._switches_itself(evaluations[0], trace)
        return UnusedGraphs(site, loop, evaluations[0], name, self._grows(forward), is_own)

    def _switches_itself(self, switch: events.ModeSwitch, trace: program.Trace) -> bool:
        """Whether a method without known callers calls `self.eval()`, as the decoder of a module does."""
        call = self.model.tree.node(switch.site)
        owner = call.func.value if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else None
        is_method = trace.root is not None and trace.root.owner is not None and not trace.called
        return is_method and isinstance(owner, ast.Name) and owner.id == "self"

    def _is_in_pass(self, loop: events.Loop, forward: mode.Pass) -> bool:
        """Whether a loop is a part of one forward pass, such as the steps of a decoder, or iterates over the layers."""
        node, call = self.model.tree.node(loop.site), self.model.tree.node(forward.site)
        targets = python_ast.names_bound(node.target) if isinstance(node, (ast.For, ast.AsyncFor)) else set[str]()
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in targets:
            return True
        return getattr(self.model.definitions.method_around(node), "name", "") == "forward"

    def _may_train(self, trace: program.Trace, loop: events.Loop, module: values.Value) -> bool:
        """Whether a loop that starts an evaluation in each iteration may train.

        It recreates the model, or passes an output to code that may train on it.
        """
        calls = (call for call in trace.of(events.Call) if loop in call.loops and self._may_act(call))
        return loop in module.loops or any(self._is_tracked(item) for call in calls for item in call.value.parents)

    def _may_act(self, call: events.Call) -> bool:
        """Whether a call is a method call, or its result is unused."""
        is_statement = self.model.tree.stands_alone(self.model.tree.node(call.site))
        return is_statement or mode.module_of(call) is None

    @cached_property
    def _useless(self) -> dict[events.Loop, bool]:
        """For each loop, whether nothing uses its graphs; cached."""
        return {}

    def _is_useless(self, trace: program.Trace, loop: events.Loop) -> bool:
        inside = [event for event in trace.events if loop in event.loops]
        if (
            any(map(_is_training, inside))
            or any(map(_is_without_gradients, inside))
            or any(map(self._differentiates, inside))
            or gradient_users.speaks_of_gradients(self.model.tree.node(loop.site))
            or self._escapes(trace, loop, inside)
        ):
            return False
        return not (
            self._fails_with_gradients(loop, inside) or gradient_users.has_callers_without_gradients(trace, self.model)
        )

    def _differentiates(self, event: events.Event) -> bool:
        """Whether an unknown call computes gradients, by its name: `compute_grad_cam(model)`."""
        call = self.model.tree.node(event.site) if isinstance(event, events.Call) else None
        return isinstance(call, ast.Call) and bool(naming.DIFFERENTIATING.search(python_ast.called_name(call)))

    def _has_graph(self, forward: mode.Pass) -> bool:
        is_on = forward.mode is api.GradMode.ON and forward.value.mode is api.GradMode.ON
        return is_on and self.model.tracking.tracked(forward.value) is values.Answer.YES

    def _escapes(self, trace: program.Trace, loop: events.Loop, inside: list[events.Event]) -> bool:
        """Whether an output with its graph reaches a backward, leaves the analysis, or is stored, which is worse."""
        outputs = {event.value for event in inside if isinstance(event, (events.Compute, events.Call))}
        keeps = (event for event in inside if isinstance(event, events.Keep) and loop not in event.container.loops)
        kept = (event.value for event in keeps if self._is_tracked(event.value))
        stored = (value for (_, name), value in trace.heap.items() if not name.startswith("["))
        returned = (event.value for event in trace.of(events.Returned))
        passed = (event.outputs for event in trace.of_kinds(events.Backward, events.Grad))
        return any(
            not outputs.isdisjoint(self.model.tracking.graph(value)) for value in (*kept, *stored, *returned, *passed)
        )

    def _fails_with_gradients(self, loop: events.Loop, inside: list[events.Event]) -> bool:
        """Whether an output with a graph goes to NumPy, which raises: callers have switched gradients off."""
        computed = [event.value for event in inside if isinstance(event, (events.Compute, events.Call))]
        tracked = [value for value in computed if self._is_tracked(value)]
        parts = [part for value in tracked for part in value.known_parts.values() if isinstance(part, values.Tensor)]
        if any(item.has_use("numpy") and self._is_tracked(item) for item in (*tracked, *parts)):
            return True
        sites, labels = {value.site for value in tracked}, {value.label for value in tracked if value.label}
        calls = (node for node in python_ast.walk(self.model.tree.node(loop.site)) if isinstance(node, ast.Call))
        given = [_unwrapped(item) for call in calls if self._wants_arrays(call) for item in call.args]
        return any(python_ast.site_of(item) in sites or python_ast.dotted(item) in labels for item in given)

    def _wants_arrays(self, call: ast.Call) -> bool:
        name = self.model.definitions.named(call.func)
        return api.gives_no_tensor(name)

    def _is_tracked(self, value: values.Value) -> bool:
        return self.model.tracking.tracked(value) is values.Answer.YES

    def _measures(self, loop: events.Loop, forward: mode.Pass) -> bool:
        """Whether the code measures something, by a function's name or because each pass has the same input."""
        around = self.model.definitions.function_around
        places = (loop.site, forward.site, *forward.calls[loop.depth :])
        functions = (around(self.model.tree.node(place)) for place in places if place.inner is None)
        named = any(function is not None and naming.MEASURING.search(function.name) for function in functions)
        return named or not self._is_given_anew(loop, forward)

    def _shows_elsewhere(self, loop: events.Loop) -> bool:
        """Whether a loop of another file draws a few outputs, by the name of its function."""
        around = self.model.tree.ancestors(self.model.tree.node(loop.site)) if loop.site.inner is not None else ()
        return any(isinstance(item, python_ast.FUNCTIONS) and naming.SHOWING.search(item.name) for item in around)

    def _is_given_anew(self, loop: events.Loop, forward: mode.Pass) -> bool:
        """Whether a forward pass has a different input in each iteration."""
        node = self.model.tree.node(loop.site)
        targets = python_ast.walk(node.target) if isinstance(node, (ast.For, ast.AsyncFor)) else ()
        bound = {item.id for item in targets if isinstance(item, ast.Name)}
        site = forward.place_in(loop)
        read = {item.id for item in python_ast.walk(self.model.tree.node(site)) if isinstance(item, ast.Name)}
        if not read.isdisjoint(bound | self.model.definitions.assigned_names(node)):
            return True
        made = lineage.ancestry(list(_given(forward)))
        return any(loop in value.loops or (isinstance(value, values.Phi) and value.loop is loop) for value in made)

    def _grows(self, forward: mode.Pass) -> bool:
        """Whether a forward pass uses its previous output with its graph.

        A call with unknown effects, such as an environment's `step`, ends the search.
        """
        seen, pending = set[values.Value](), list(_given(forward))
        while pending:
            value = pending.pop()
            if value is forward.value:
                return True
            if value not in seen and self._passes_graph_on(value):
                seen.add(value)
                pending += lineage.graph_inputs(value) if isinstance(value, values.Tensor) else value.parents
        return False

    def _passes_graph_on(self, value: values.Value) -> bool:
        """Whether a value's inputs reach it with their graph, as far as torchlint can tell."""
        if isinstance(value, values.Unknown):
            return isinstance(value, (values.Attribute, values.Element)) or module_values.is_forward(value)
        is_known = isinstance(value, (values.Phi, values.Container))
        return is_known or self.model.tracking.tracked(value) is not values.Answer.NO

    def _name(self, site: python_ast.Site, forward: mode.Pass, switch: events.ModeSwitch) -> str:
        """The name of the model in the function with the loop, as called there or as switched."""
        tree = self.model.tree
        call = tree.own_node(site if site == forward.site else switch.site)
        named = call.func if isinstance(call, ast.Call) else None
        if site != forward.site and isinstance(named, ast.Attribute):
            named = named.value
        code = tree.code(named) if named is not None else ""
        return code if "\n" not in code and "(" not in code else values.resolved(switch.module).label

    # -- report ---------------------------------------------------------------------------------------

    def report_UnusedGraphs(self, unused: UnusedGraphs) -> None:
        name = f"`{unused.name}`" if unused.name else "the model"
        memory = (
            "the graph grows with every iteration"
            if unused.grows
            else "each pass stores activations for a backward that never runs"
        )
        self.report(
            unused.site,
            f"{name} is evaluated with gradients on, and nothing uses them: {memory}",
            related=[(unused.switch.site, "`eval()` leaves gradients on")],
            help="evaluate under `torch.no_grad()`",
            fix=self._fix(unused.loop),
            about=unused.loop.site,
            confidence=Confidence.LOW if unused.is_own else Confidence.HIGH,
        )

    def _fix(self, loop: events.Loop) -> edits.Change | None:
        """The decorated function, if it does nothing else, or the loop in a block."""
        own = self.model.definitions
        no_grad, node = own.local_name("torch.no_grad"), self.model.tree.node(loop.site)
        if no_grad is None or not isinstance(node, (ast.For, ast.While)):
            return None
        around = own.function_around(node)
        function = around.node if around is not None else None
        if isinstance(function, ast.FunctionDef) and self._only_evaluates(function, node):
            written = self.written(python_ast.site_of(function))
            change = edits.InsertBefore(written, f"@{no_grad}()") if written is not None else None
            return edits.Change(f"decorate the function with `{no_grad}()`", [change]) if change is not None else None
        header, written = f"with {no_grad}():", self.written(loop.site)
        return edits.Change(f"wrap it in `{header}`", [edits.Enclose(written, written, header)]) if written else None

    def _only_evaluates(self, function: ast.FunctionDef, loop: ast.AST) -> bool:
        """Whether a function's calls do not train, and it has no other loop, which may train."""
        nodes = list(python_ast.walk(function))
        inside = set(python_ast.walk(loop))
        if any(isinstance(node, python_ast.LOOPS) and node not in inside for node in nodes):
            return False
        calls = {python_ast.called_name(node).rpartition(".")[2] for node in nodes if isinstance(node, ast.Call)}
        return not any(naming.DIFFERENTIATING.search(name) or naming.TRAINING.match(name) for name in calls)


def _is_training(event: events.Event) -> bool:
    """Whether an event affects gradients, sets a mode other than evaluation, or may do so through a call."""
    if isinstance(event, events.ModeSwitch):
        return event.training is not False
    return isinstance(event, (events.Backward, events.Grad, events.GradRead, events.Step, events.Yield))


def _is_without_gradients(event: events.Event) -> bool:
    """Whether a forward pass runs with gradients off: the author then left the others as they are."""
    if not isinstance(event, (events.Compute, events.Call)) or not module_values.is_forward(event.value):
        return False
    return event.value.mode is api.GradMode.OFF


def _given(forward: mode.Pass) -> tuple[values.Value, ...]:
    """The arguments of a forward pass."""
    return forward.value.parents[1:] if isinstance(forward, events.Compute) else forward.value.parents


def _unwrapped(node: ast.expr) -> ast.expr:
    """`out` of `out[0].cpu()`."""
    while True:
        if isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SAME_TENSOR:
            node = node.func.value
        else:
            return node
