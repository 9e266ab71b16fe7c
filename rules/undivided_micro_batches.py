"""Losses of micro-batches that are summed without being divided."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Confidence, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import events, program
from torchlint.model.queries import written
from torchlint.model.relations import gradients
from torchlint.pytorch import triggers
from torchlint.syntax import python_ast

_ELSEWHERE = LazyPattern(r"(?i)accelerat|deepspeed|lightning|fabric|reduction\s*=\s*['\"]sum|\.sum\(\)")
"""Words of programs that scale elsewhere, or whose losses are sums."""


class Undivided(NamedTuple):
    """The step at `step` uses the sum of `number` micro-batches' gradients, which `backward` does not divide."""

    backward: events.Backward
    step: events.Step
    number: str


class UndividedMicroBatches(Rule):
    """The gradients of several micro-batches are summed, but the loss is not divided.

    ## What it does
    Finds steps under `(i + 1) % accumulation_steps == 0`, or under `count >= accumulation_steps` where the block sets
    `count` to 0 again. Each micro-batch adds the gradients of its mean loss, and no code divides anything by
    `accumulation_steps`.

    Not reported where losses are sums, or where a library such as accelerate scales the loss.

    This rule is a preview because some programs choose a learning rate for the sum.

    ## Why is this bad?
    With `n` micro-batches, the gradient is `n` times too large. With SGD, this acts like a learning rate that is `n`
    times larger. Clipping with a fixed bound shrinks nearly all gradients.

    ## Example
    ```python
    import torch
    import torch.nn.functional as F

    def train(model, loader, accumulation_steps):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for i, (x, y) in enumerate(loader):
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            if (i + 1) % accumulation_steps == 0:
                optimizer.step()
                optimizer.zero_grad()
    ```

    Use instead:
    ```python
    import torch
    import torch.nn.functional as F

    def train(model, loader, accumulation_steps):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for i, (x, y) in enumerate(loader):
            loss = F.cross_entropy(model(x), y) / accumulation_steps
            loss.backward()
            if (i + 1) % accumulation_steps == 0:
                optimizer.step()
                optimizer.zero_grad()
    ```

    ## References
    - [Gradient accumulation](https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation)
    """

    code = "TL150"
    category = Category.SUSPICIOUS
    preview = True
    triggers = (triggers.BACKWARD, triggers.STEP, (b"%", b"acc", b"Acc"))

    def ask(self) -> Iterator[Undivided]:
        if self.model.is_test or any(_ELSEWHERE.search(tree.source.text) for tree in self.model.program.files):
            return
        done: set[python_ast.Site | None] = set()
        for trace in self.model.program.traces:
            for step in trace.of(events.Step):
                found = self._undivided(trace, step)
                if found is not None and found.backward.site not in done:
                    done.add(found.backward.site)
                    yield found

    def _undivided(self, trace: program.Trace, step: events.Step) -> Undivided | None:
        number, window = self._window(step)
        if number is None or window is None or self._is_divisor(number):
            return None
        arrivals = self.model.gradients.at(trace, step)
        if step.manual or any(item.is_unknown for item in arrivals):
            return None
        for backward in self.model.gradients.pending(arrivals):
            is_of_each = backward.loops == step.loops and all(
                branch is not window for branch, _ in (*backward.path, *backward.passed)
            )
            if is_of_each and bool(backward.loops):
                return Undivided(backward, step, self.model.tree.code(number))
        return None

    def _window(self, step: events.Step) -> tuple[ast.expr | None, object]:
        """The number of micro-batches that a condition around or before a step counts, and the branch."""
        for arm in (*step.path, *step.passed):
            branch, _ = arm
            node = self.model.tree.own_node(branch.site) if isinstance(branch, events.Branch) else None
            if not isinstance(node, ast.If):
                continue
            is_around = arm in step.path
            rest = self._remainder(node.test) if is_around else self._skipped(node.test)
            number = rest.right if rest is not None else _counted(node) if is_around else None
            if number is not None:
                return number, branch
        return None, None

    def _remainder(self, test: ast.expr) -> ast.BinOp | None:
        """`(i + 1) % k` of a condition, or of the variable with it, that is true at the end of each window."""
        return _remainder(written.value_of(test, self.model.definitions))

    def _skipped(self, test: ast.expr) -> ast.BinOp | None:
        """`(i + 1) % k` of a condition that leaves before the end of each window: `if not is_last: continue`."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return self._remainder(test.operand)
        return gradients.windows.inverted(written.value_of(test, self.model.definitions))

    def _is_divisor(self, number: ast.expr) -> bool:
        """Whether the program divides something by a number, or multiplies by a value of its name."""
        name = python_ast.last_name(number)
        if not name and not isinstance(number, ast.Constant):
            return True
        for tree in self.model.program.files:
            for node in tree.of_type(ast.BinOp, ast.AugAssign):
                divisor = node.right if isinstance(node, ast.BinOp) else node.value
                if isinstance(node.op, (ast.Div, ast.Mult)) and self._is_same(divisor, number, name):
                    return True
                if isinstance(node.op, ast.Div) and isinstance(divisor, (ast.Name, ast.Attribute)):
                    if "acc" in python_ast.last_name(divisor).lower():
                        return True
            for call in tree.of_type(ast.Call):
                given = python_ast.arguments(call)
                if python_ast.called_name(call) in ("div", "div_", "true_divide") and given:
                    return True
        return False

    def _is_same(self, divisor: ast.expr, number: ast.expr, name: str) -> bool:
        if isinstance(number, ast.Constant):
            value = divisor.value if isinstance(divisor, ast.Constant) else None
            return value is not None and (value == number.value or isinstance(value, float))
        return name in {text.rpartition(".")[2] for text in python_ast.names_read(divisor)}

    def report_Undivided(self, found: Undivided) -> None:
        self.report(
            found.backward.site,
            f"the loss is not divided by `{found.number}`: the step uses the sum of the micro-batches' gradients",
            related=[(found.step.site, "this step uses the gradients of all of them")],
            help=f"divide the loss by `{found.number}`",
            confidence=Confidence.LOW,
        )


def _counted(node: ast.If) -> ast.expr | None:
    """The number of micro-batches up to which a counter counts before the block sets it to 0."""
    for part in node.test.values if isinstance(node.test, ast.BoolOp) else [node.test]:
        if isinstance(part, ast.Compare) and isinstance(part.ops[0], (ast.Eq, ast.GtE)) and len(part.ops) == 1:
            counter = python_ast.dotted(part.left)
            resets = [item for item in node.body if isinstance(item, ast.Assign)]
            zeros = (item for item in resets if gradients.windows.is_number(item.value, 0))
            starts = [python_ast.dotted(item.targets[0]) for item in zeros]
            if counter and counter in starts and "acc" in python_ast.last_name(part.comparators[0]).lower():
                return part.comparators[0]
    return None


def _remainder(test: ast.expr) -> ast.BinOp | None:
    """`(i + 1) % k` of a condition that is true at the end of each window, whatever else it requires."""
    for part in test.values if isinstance(test, ast.BoolOp) else [test]:
        if gradients.windows.window_end(part) is not None and isinstance(part, ast.Compare):
            return part.left if isinstance(part.left, ast.BinOp) else None
    return gradients.windows.remainder(test)
