"""Hooks that are registered repeatedly and never removed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import Category, Rule
from torchlint.model.queries import repeated_hooks
from torchlint.pytorch import triggers

if TYPE_CHECKING:
    from torchlint.index import FileIndex


class LeakedHook(Rule):
    """Every iteration registers another hook, and nothing removes it.

    ## What it does
    Finds `register_forward_hook` and similar calls that run on the same module in every iteration of a loop, or in
    every `forward`. No code stores the handle that could remove the hook. torchlint follows functions and constructors
    that the loop calls, even in other files. It also follows inner loops over all layers of the module.

    ## Why is this bad?
    Every iteration is slower than the one before. A module keeps its hooks until they are removed, so after a thousand
    batches each forward pass calls a thousand hooks. If a hook stores values, they are stored a thousand times and stay
    in memory.

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
    `torchlint verify` counts the hooks. It confirms the finding if three or more hooks from the line are on one module
    at the same time. It refutes the finding if each is removed before the next one is registered.

    ## References
    - [torch.nn.Module.register_forward_hook](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.register_forward_hook)
    """

    code = "TL207"
    category = Category.PERFORMANCE
    is_free_unless_run = True
    calls = triggers.HOOK_NAMES
    triggers = ((*triggers.HOOK, *triggers.BACKWARD), (*triggers.HOOK, *triggers.STEP), (b"for",))

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        return index.has_word(triggers.HOOK)

    def ask(self) -> Iterator[repeated_hooks.RepeatedHook]:
        """Hooks that no code can remove."""
        if not self.model.is_test and not self._empties_hooks():
            hooks = repeated_hooks.RepeatedHooks(self.model.program, self.model.parts)
            for trace in self.model.program.traces:
                yield from hooks.of(trace)

    def _empties_hooks(self) -> bool:
        """Whether the program accesses a module's hooks by PyTorch's attribute: `module._forward_hooks`."""
        return any(node.attr.endswith("_hooks") for node in self.model.program.nodes(ast.Attribute))

    def report_RepeatedHook(self, hook: repeated_hooks.RepeatedHook) -> None:
        call = self.model.tree.node(hook.site)
        method = call.func if isinstance(call, ast.Call) else None
        owner = self.model.tree.code(method.value) if isinstance(method, ast.Attribute) else "\n"
        name = f"`{owner}`" if "\n" not in owner else "a module"
        often = "every iteration" if hook.loop is not None else "every call to `forward`"
        self.report(
            hook.site,
            f"{often} registers another hook on {name}, and nothing removes them: each pass calls all of them",
            related=[(hook.loop.site, "in this loop")] if hook.loop is not None else [],
            help="register it once before the loop, or store the handle and call its `remove()`",
        )
