"""Tensors that every step creates on the CPU and copies."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule, Safety, edits
from torchlint.lazy_pattern import LazyPattern
from torchlint.syntax import python_ast, python_tree

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_MADE = frozenset(f"torch.{name}" for name in ("zeros", "ones", "full", "eye", "arange", "linspace", "empty"))
"""Functions that create the same values on every device; random numbers differ between devices."""
_OTHERWISE = frozenset({"device", "out", "pin_memory", "requires_grad", None})
"""Arguments that already set the device, or change the meaning of `device`."""
_DEVICE = LazyPattern(r"(?:^|_)(?:device|dev)\d?$", re.IGNORECASE)
_ACCELERATOR = LazyPattern(r"(?:cuda|mps|xpu)(?::\d+)?$")
_STEPS = frozenset({"forward", "training_step", "validation_step"})
_SET_UP = LazyPattern(r"^_*(?:init|reset|build|make|create|set_?up|load|register|precompute|alloc)")


class CopiedToDevice(NamedTuple):
    """The call at `site` copies the tensor that `made` creates to a device in every `when`."""

    site: Site
    made: Site
    name: str
    device: str
    when: str


class CreateOnDevice(Rule):
    """A tensor is created on the CPU and copied to the device in every step.

    ## What it does
    Finds `torch.zeros(...).to(device)` or `.cuda()` in a loop, in `forward`, and in the steps of a Lightning module.
    The same holds for `ones`, `full`, `eye`, `arange`, `linspace` and `empty`.

    Not reported:

    - random numbers, because each device has its own generator
    - setup functions, tests, and conversions to a dtype
    - a device that is always the CPU
    - a cached tensor, created once under `if self.mask is None:`

    ## Why is this bad?
    Each step creates the tensor on the CPU and copies it, and the CPU waits for the copy. With `device=`, PyTorch
    creates the tensor where it is needed. One such line costs little, but a small model that runs often becomes slower.
    On an H200, `arange(4096)` took 18 microseconds with the copy and 7 without. A tensor of a million numbers took 930
    microseconds with the copy and 12 without.

    ## Example
    ```python
    import torch
    from torch import nn

    class Embedding(nn.Module):
        def forward(self, tokens):
            positions = torch.arange(tokens.shape[1]).to(tokens.device)
            return self.words(tokens) + self.positions(positions)
    ```

    Use instead:
    ```python
    import torch
    from torch import nn

    class Embedding(nn.Module):
        def forward(self, tokens):
            positions = torch.arange(tokens.shape[1], device=tokens.device)
            return self.words(tokens) + self.positions(positions)
    ```

    ## Fix safety
    The fix passes `device=`. It is safe: the values and their dtype do not change.

    ## References
    - [Performance tuning guide](https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html): "Create tensors
      directly on the target device"
    """

    code = "TL406"
    category = Category.PERFORMANCE
    is_free_unless_run = True
    preview = True
    triggers = ((b"torch",), (b"zeros", b"ones", b"full", b"eye", b"arange", b"linspace", b"empty"), (b".to", b".cuda"))

    @classmethod
    def may_fire(cls, code: bytes) -> bool:
        return _COPY.search(code) is not None

    def ask(self) -> Iterator[CopiedToDevice]:
        if self.model.is_test:
            return
        for call in self.model.tree.of_type(ast.Call):
            device = _device_of(call)
            made = call.func.value if device and isinstance(call.func, ast.Attribute) else None
            if device and isinstance(made, ast.Call) and self._is_made(made) and not self._is_cpu(device):
                when = self._when(call)
                if when:
                    name = self.model.tree.code(made.func)
                    text = self.model.tree.code(device) if call.args or call.keywords else '"cuda"'
                    yield CopiedToDevice(python_ast.site_of(call), python_ast.site_of(made), name, text, when)

    def _is_made(self, made: ast.Call) -> bool:
        """Whether a call creates a tensor whose values are the same on every device."""
        if any(item.arg in _OTHERWISE for item in made.keywords) or not made.args:
            return False
        return self.model.definitions.qualified(python_ast.dotted(made.func), made) in _MADE

    def _when(self, call: ast.Call) -> str:
        """The frequency of a call: in every iteration, or in every call to `forward`; empty if only once."""
        for above in self.model.tree.ancestors(call):
            if isinstance(above, python_ast.LOOPS) and _is_below(call, above, self.model.tree):
                function = self.model.definitions.function_around(above)
                is_setting_up = function is not None and _SET_UP.match(function.name)
                return "" if is_setting_up or self._is_made_once(call, above) else "iteration"
            if isinstance(above, python_ast.FUNCTIONS):
                is_step = isinstance(self.model.tree.parent(above), ast.ClassDef) and above.name in _STEPS
                return f"`{above.name}`" if is_step and not self._is_made_once(call, above) else ""
        return ""

    def _is_made_once(self, call: ast.Call, around: ast.AST) -> bool:
        """Whether a condition checks for a name that is assigned under it, or after it if the branch leaves.

        An example is `if self.mask is None:`. In a function, the name must outlive the call.
        """
        above = set(self.model.tree.ancestors(call))
        tests = (node for node in python_ast.walk(around) if isinstance(node, ast.If) and node.lineno < call.lineno)
        for branch in tests:
            if branch in above or isinstance(branch.body[-1], python_ast.LEAVING):
                stored = _stored(branch if branch in above else around) & _asked(branch.test)
                if any("." in name or isinstance(around, python_ast.LOOPS) for name in stored):
                    return True
        return False

    def _is_cpu(self, device: ast.expr) -> bool:
        """Whether a device is the CPU, written directly or in all values of its name."""
        name = python_ast.dotted(device)
        if not name:
            return _is_written_cpu(device)
        function = self.model.definitions.function_around(device)
        while function is not None:
            if name in function.parameters:
                return False
            function = function.enclosing
        assigned = self.model.tree.of_type(ast.Assign, ast.AnnAssign)
        bound = [node.value for node in assigned if name in map(python_ast.dotted, _targets(node))]
        return bool(bound) and all(map(_is_written_cpu, bound))

    def report_CopiedToDevice(self, answer: CopiedToDevice) -> None:
        self.report(
            answer.site,
            f"`{answer.name}` creates its tensor on the CPU and copies it to the device in every {answer.when}",
            help=f"create it there: `device={answer.device}`",
            fix=self._fix(answer),
        )

    def _fix(self, answer: CopiedToDevice) -> edits.Change | None:
        copied = self.nodes.at(answer.site) if self.nodes is not None else None
        made = self.model.tree.code(self.model.tree.node(answer.made))
        if copied is None or "\n" in made + answer.device:
            return None
        text = f"{made[:-1].rstrip().removesuffix(',')}, device={answer.device})"
        return edits.Change(f"add `device={answer.device}`", [edits.Replace(copied, text)], Safety.SAFE)


_COPY = LazyPattern(
    rb"(?:\b(?:zeros|ones|full|eye|arange|linspace|empty)\s*\(|from\s+torch\s+import\b)[\s\S]{0,1000}?\)\s*\.\s*(?:to|cuda)\s*\("
)


def _device_of(call: ast.Call) -> ast.expr | None:
    """The code of the device to which a call to `to` or `cuda` only copies; for `cuda()` the call itself."""
    given = [*call.args, *(item.value for item in call.keywords if item.arg == "device")]
    is_plain = len(call.args) + len(call.keywords) == len(given)
    if not isinstance(call.func, ast.Attribute) or not is_plain or len(given) > 1:
        return None
    if call.func.attr == "cuda" and not given:
        return call
    return given[0] if call.func.attr in ("to", "cuda") and given and _is_device(given[0]) else None


def _is_device(node: ast.expr) -> bool:
    """Whether an expression is a device, rather than a type or another tensor."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and _ACCELERATOR.match(node.value) is not None
    if isinstance(node, ast.Call):
        return python_ast.dotted(node.func) == "torch.device"
    return _DEVICE.search(python_ast.dotted(node).rpartition(".")[2]) is not None


def _is_written_cpu(device: ast.expr | None) -> bool:
    """`"cpu"`, `torch.device("cpu")`."""
    if isinstance(device, ast.Call) and python_ast.dotted(device.func) == "torch.device" and device.args:
        device = device.args[0]
    return isinstance(device, ast.Constant) and device.value == "cpu"


def _targets(node: ast.Assign | ast.AnnAssign) -> list[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else [node.target]


def _stored(block: ast.AST) -> set[str]:
    """The names and attributes that a block assigns: `self.cache` of `self.cache[key] = ...`."""
    assigned = (node for node in python_ast.walk(block) if isinstance(node, (ast.Assign, ast.AnnAssign)))
    return {python_ast.dotted(target) for node in assigned for target in _targets(node)} - {""}


def _asked(test: ast.expr) -> set[str]:
    """The names and attributes that a condition checks, including `self.mask` of `hasattr(self, "mask")`."""
    found = {python_ast.dotted(node) for node in python_ast.walk(test) if isinstance(node, (ast.Name, ast.Attribute))}
    for call in python_ast.walk(test):
        if isinstance(call, ast.Call) and python_ast.called_name(call) == "hasattr" and len(call.args) == 2:
            owner, name = call.args
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                found.add(f"{python_ast.dotted(owner)}.{name.value}")
    return found


def _is_below(node: ast.AST, loop: ast.AST, tree: python_tree.PythonTree) -> bool:
    """Whether a node is in the body of a loop, rather than in its iterable."""
    inside = node
    for above in tree.ancestors(node):
        if above is loop:
            break
        inside = above
    return any(inside is item for item in getattr(loop, "body", ()))
