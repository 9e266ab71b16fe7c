"""Hooks of modules that are registered again and again, and never removed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.model import events, lineage, module_values, program, values
from torchlint.pytorch import triggers
from torchlint.syntax import python_ast


class RepeatedHook(NamedTuple):
    """A hook that is registered at `site` in every iteration of `loop` (None: in every call of `forward`)."""

    site: python_ast.Site
    loop: events.Loop | None


class LeakedHook(Rule):
    """A hook is registered in every iteration, and its handle is thrown away.

    ## What it does
    Finds `register_forward_hook` and its kin, called on the same module in every iteration of a loop that runs a
    model, or in every `forward`, where nobody keeps the handle that could remove the hook.

    ## Why is this bad?
    A module keeps its hooks until they are removed. After a thousand batches each pass calls a thousand of them:
    every iteration is slower than the one before, whatever the hooks collect is collected a thousand times, and what
    they hold on to stays in memory.

    ## Example
    ```python
    def collect(model, loader, found):
        for x in loader:
            model.head.register_forward_hook(lambda module, given, output: found.append(output.detach()))
            model(x)
    ```

    Use instead:
    ```python
    def collect(model, loader, found):
        handle = model.head.register_forward_hook(lambda module, given, output: found.append(output.detach()))
        for x in loader:
            model(x)
        handle.remove()
    ```

    ## What verify shows
    `torchlint verify` counts the hooks: confirmed if three of the line or more are on one module at once; refuted
    if each was removed before the next one came.

    ## References
    - [torch.nn.Module.register_forward_hook](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.register_forward_hook)
    """

    code = "TL207"
    category = Category.PERFORMANCE
    is_free_unless_run = True
    preview = True
    calls = triggers.HOOK_NAMES
    triggers = (triggers.HOOK,)

    def ask(self) -> Iterator[RepeatedHook]:
        """Hooks that nobody can remove."""
        if self.model.is_test or self._empties_hooks():
            return
        for trace in self.model.program.traces:
            for event in trace.of(events.Call):
                if self._is_hook(event) and self._drops_handle(self.model.tree.node(event.site)):
                    yield from self._repeated(trace, event)

    def _empties_hooks(self) -> bool:
        """Whether the file gets at the hooks of a module by what PyTorch calls them: `module._forward_hooks`."""
        return any(node.attr.endswith("_hooks") for node in self.model.tree.of_type(ast.Attribute))

    def _is_hook(self, event: events.Call) -> bool:
        callee = event.value.callee
        return event.site.inner is None and callee is not None and callee.label in triggers.HOOK_NAMES

    def _drops_handle(self, call: ast.AST) -> bool:
        """Whether nobody has the handle: it is bound to no name, or to one that is never read."""
        parent = self.model.tree.parent(call)
        if not isinstance(parent, ast.Assign):
            return isinstance(parent, ast.Expr)
        function = self.model.definitions.function_around(call)
        around = function.node if function is not None else self.model.tree.module
        names = (node for node in python_ast.walk(around) if isinstance(node, ast.Name))
        read = {node.id for node in names if isinstance(node.ctx, ast.Load)}
        return all(isinstance(target, ast.Name) and target.id not in read for target in parent.targets)

    def _repeated(self, trace: program.Trace, event: events.Call) -> Iterator[RepeatedHook]:
        module = values.resolved(event.value.parents[0]) if event.value.parents else None
        loops = events.repeating(event.loops)
        if module is None or isinstance(module, values.Phi) or event.passed:
            return
        if loops:
            loop = loops[-1]
            is_always = len(event.path) == len(loop.path) and loop.site.inner is None
            if is_always and not self._is_made_in(module, event, loop) and self._runs_model(trace, loop):
                yield RepeatedHook(event.site, loop)
        elif self._is_in_forward(trace) and not event.path and not event.calls and self._is_own(module, trace):
            yield RepeatedHook(event.site, None)

    def _is_made_in(self, module: values.Value, event: events.Call, loop: events.Loop) -> bool:
        """Whether a module, or what it is found by, is another one in each iteration."""
        if any(loop in value.loops for value in lineage.ancestry([module])):
            return True
        call, node = self.model.tree.node(event.site), self.model.tree.node(loop.site)
        names = python_ast.names_read(call.func) if isinstance(call, ast.Call) else set()
        targets = ast.walk(node.target) if isinstance(node, (ast.For, ast.AsyncFor)) else ()
        bound = {item.id for item in targets if isinstance(item, ast.Name)}
        return not names.isdisjoint(bound | self.model.definitions.assigned_names(node))

    def _runs_model(self, trace: program.Trace, loop: events.Loop) -> bool:
        passes = (event for event in trace.of_kinds(events.Compute, events.Call) if loop in event.loops)
        forward = any(module_values.is_forward(event.value) for event in passes)
        return forward or any(loop in backward.loops for backward in trace.of(events.Backward))

    def _is_in_forward(self, trace: program.Trace) -> bool:
        root = trace.root
        return root is not None and root.name == "forward" and isinstance(trace.receiver, values.Module)

    def _is_own(self, module: values.Value, trace: program.Trace) -> bool:
        """Whether a module is one that the object of a `forward` keeps: one that is made there goes with the call."""
        return trace.receiver is not None and self.model.parts.is_part(module, trace.receiver)

    def report_RepeatedHook(self, hook: RepeatedHook) -> None:
        call = self.model.tree.node(hook.site)
        method = call.func if isinstance(call, ast.Call) else None
        owner = self.model.tree.code(method.value) if isinstance(method, ast.Attribute) else "\n"
        name = f"`{owner}`" if "\n" not in owner else "a module"
        often = "every iteration" if hook.loop is not None else "every call of `forward`"
        self.report(
            hook.site,
            f"{often} registers another hook on {name}, and nothing removes them: each pass calls all of them",
            related=[(hook.loop.site, "in this loop")] if hook.loop is not None else [],
            help="register it once, before the loop, or keep the handle and call its `remove()`",
        )
