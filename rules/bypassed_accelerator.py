"""Backward passes that leave out the accelerator which prepared the model."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Confidence, Rule
from torchlint.model.queries import names
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_PLAIN_PRECISIONS = ("no", "bf16", None)
"""Precisions of an accelerator that do not scale the loss."""


class Bypass(NamedTuple):
    """`backward` at `site` has no accelerator, although one prepared the optimizer of the `step`."""

    site: Site
    prepared: Site
    step: Site
    reason: str


class BypassedAccelerator(Rule):
    """A loss goes backward without the accelerator that prepared the optimizer.

    ## What it does
    Finds `loss.backward()` in a function that steps an optimizer from `accelerator.prepare`, where nothing in the file
    calls `accelerator.backward`. Reported only with `--preview`: programs that set neither `mixed_precision` nor
    `gradient_accumulation_steps`, where both calls compute the same unless the user configures Accelerate otherwise.

    ## Why is this bad?
    `accelerator.backward` divides the loss by the number of accumulated batches and scales it in half precision.
    Without it, the gradients of all micro-batches add up. In `fp16`, small gradients become 0, and the step divides
    the others by a scale that they never had.

    ## Example
    ```python
    from accelerate import Accelerator

    def train(model, optimizer, loader, criterion):
        accelerator = Accelerator(mixed_precision="fp16")
        model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
        for x, y in loader:
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    ```

    Use instead:
    ```python
    from accelerate import Accelerator

    def train(model, optimizer, loader, criterion):
        accelerator = Accelerator(mixed_precision="fp16")
        model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
        for x, y in loader:
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
    ```

    ## References
    - [Add Accelerate to your code](https://huggingface.co/docs/accelerate/basic_tutorials/migration): "Replace
      `loss.backward()`"
    """

    code = "TL162"
    category = Category.CORRECTNESS
    triggers = ((b"Accelerator",), (b"prepare",), (b"backward",))

    def ask(self) -> Iterator[Bypass]:
        created = self._created
        if created is None or self.model.is_test or self.model.mentions((b"accelerator.backward",)):
            return
        calls = [node for node in self.model.tree.of_type(ast.Call) if python_ast.called_name(node) == "backward"]
        if any(node.args and not isinstance(node.args[0], ast.Constant) for node in calls):
            return
        for call in calls:
            prepared, step = self._step_beside(call)
            if prepared is not None and step is not None:
                site = python_ast.site_of
                yield Bypass(site(call), site(prepared), site(step), self._reason(created))

    @cached_property
    def _created(self) -> ast.Call | None:
        """The only creation of an accelerator in the file."""
        found = [call for call, _ in names.calls_of(("accelerate.Accelerator",), self.model.definitions)]
        return found[0] if len(found) == 1 else None

    def _step_beside(self, backward: ast.Call) -> tuple[ast.Call | None, ast.Call | None]:
        """The preparation of an optimizer, and its step after a backward pass in the same block of a function."""
        for statement in self.model.tree.after(backward):
            for node in python_ast.walk(statement):
                if isinstance(node, ast.Call) and python_ast.called_name(node) == "step" and not node.args:
                    receiver = python_ast.dotted(getattr(node.func, "value", None))
                    if receiver in self._prepared:
                        return self._prepared[receiver], node
        return None, None

    @cached_property
    def _prepared(self) -> dict[str, ast.Call]:
        """The optimizers that `prepare` receives, and the call."""
        found: dict[str, ast.Call] = {}
        for call in self.model.tree.of_type(ast.Call):
            if python_ast.called_name(call) == "prepare":
                found |= {
                    python_ast.dotted(item): call for item in call.args if "opt" in python_ast.dotted(item).lower()
                }
                found |= {name: call for name in self._targets(call) if "opt" in name.lower()}
        return found

    def _targets(self, call: ast.Call) -> set[str]:
        statement = self.model.tree.statement(call)
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        return {name for target in targets for name in python_ast.names_bound(target)}

    def _reason(self, created: ast.Call) -> str:
        """The setting that makes `accelerator.backward` differ from `backward`."""
        for keyword in created.keywords:
            value, name = keyword.value, keyword.arg
            if name == "mixed_precision" and getattr(value, "value", "") not in _PLAIN_PRECISIONS:
                return "mixed precision does not scale the loss"
            if name == "gradient_accumulation_steps" and getattr(value, "value", 0) != 1:
                return "the loss is not divided by the number of micro-batches"
        return ""

    def report_Bypass(self, found: Bypass) -> None:
        self.report(
            found.site,
            f"`backward` bypasses the accelerator: {found.reason or 'its precision and its accumulation are left out'}",
            related=[(found.prepared, "it prepares the optimizer here"), (found.step, "the optimizer steps here")],
            help="call `accelerator.backward(loss)`",
            confidence=Confidence.MEDIUM if found.reason else Confidence.LOW,
        )
