"""Uses of removed PyTorch functions, modules and arguments."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule, Safety, edits, repairs
from torchlint.files.words import AnyName
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import events, values
from torchlint.model.queries import byte_masks, changed_api, given, gradient_users, version_guards
from torchlint.pytorch import changes, losses, operators
from torchlint.syntax.python_ast import is_literal

from ._byte_mask_words import CALLS, may_make_bytes, may_store_number

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_SAME_SIZES = frozenset({"data", "detach", "clone", "cpu", "cuda", "to", "float", "numpy"})
_MASKING = frozenset({"masked_fill", "masked_fill_", "masked_select"})


class ElementOfNumber(NamedTuple):
    """The code at `site` indexes a tensor without dimensions."""

    site: Site


class MaskOfBytes(NamedTuple):
    """The operation at `site` gets the byte mask made at `mask`."""

    site: Site
    mask: Site
    operation: str


class RemovedApi(Rule):
    """The code uses a removed PyTorch API that raises or does nothing.

    ## What it does
    Finds functions, modules and arguments that the newest PyTorch no longer has:

    - `torch.symeig` and related functions, `torch.rfft`, `torch._six`
    - `verbose=` of learning rate schedulers
    - `torch.stft` without `return_complex`
    - `loss.data[0]` of a tensor that is a single number
    - byte masks for `masked_fill` and for `x[mask] = 0`
    - `Variable(x, volatile=True)`

    If the pyproject.toml, setup.cfg, setup.py, requirements.txt or environment.yml of a project requires older
    releases, torchlint reports only what these releases lack. Code that checks the version of PyTorch, or catches
    `AttributeError` or `ImportError`, is not reported.

    ## Why is this bad?
    The line raises when it runs, often after the first epoch, where the program prints the loss. `volatile=True` is
    worse, because it has no effect. The evaluation builds graphs and runs out of memory.

    ## Example
    ```python
    import torch.nn.functional as F

    def train(model, loader, optimizer):
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            print(loss.data[0])
    ```

    Use instead:
    ```python
    import torch.nn.functional as F

    def train(model, loader, optimizer):
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            print(loss.item())
    ```

    ## Fix safety
    It is safe to remove `verbose`, and to replace `torch._six.inf` with `math.inf`. It is unsafe to add `item()` or to
    rename a function: a line that raised an error now runs, and so does the code after it. There is no fix if the order
    of arguments has changed.

    ## What verify shows
    `torchlint verify` confirms the finding if PyTorch raises an error at the line.

    ## References
    - [PyTorch 0.4.0 Migration Guide](https://pytorch.org/blog/pytorch-0_4_0-migration-guide/): "loss.data[0]"
    - [torch.linalg](https://docs.pytorch.org/docs/stable/linalg.html)
    """

    code = "TL801"
    category = Category.CORRECTNESS
    is_free_unless_run = True
    aliases = ("TOR001", "TOR004")
    triggers = ((b"torch",),)
    calls = frozenset(losses.FUNCTIONS.values()) | losses.FUNCTIONS.keys() | _MASKING | CALLS

    @classmethod
    def may_fire(cls, code: bytes) -> bool:
        return any(sign(code) for sign in _MAY)

    def ask(self) -> Iterator[changed_api.Use | ElementOfNumber | MaskOfBytes]:
        known = [change for change in changes.REMOVALS if change.since <= self.model.torch.highest]
        for use in changed_api.ChangedApi(self.model.definitions, known).uses():
            if not (use.change.keyword == "volatile" and self._is_in_vain(use.keyword)):
                yield use
        names = {change.name for change in known}
        code = self.model.tree.source.code
        if "Tensor.data[0]" in names and _may_ask_number(code):
            yield from self._elements_of_numbers()
        if "Tensor.masked_fill" in names and _may_mask(code):
            yield from self._masks_of_bytes()
        if "Tensor.__setitem__" in names and may_store_number(code):
            for access in byte_masks.accesses(self.model):
                if access.stores_number:
                    yield MaskOfBytes(access.site, access.mask, "assigning to masked elements")

    def _is_in_vain(self, volatile: ast.keyword | None) -> bool:
        """Whether `volatile` is False, possibly as an unused parameter, or gradients are off around it."""
        if volatile is None:
            return False
        default = given.default_of(volatile.value, self.model)
        is_false = any(is_literal(item, False) for item in (volatile.value, default) if item is not None)
        return is_false or gradient_users.stands_without_gradients(volatile, self.model.tree)

    def _elements_of_numbers(self) -> Iterator[ElementOfNumber]:
        tree, observations = self.model.tree, self.model.program.observations
        losses_of_backward = set(self._begin_backward())
        for site, tensor in observations.indexed:
            node = tree.node(site)
            if site.inner is None and tensor.op in (operators.DATA, operators.NUMPY):
                if not self._is_number(tensor, losses_of_backward):
                    continue
                if not version_guards.is_guarded(tree, node):
                    yield ElementOfNumber(site)

    def _is_number(self, tensor: values.Value, losses_of_backward: set[values.Value]) -> bool:
        """Whether a tensor certainly has no dimensions."""
        whole = tensor
        while isinstance(whole, values.Tensor) and whole.op in _SAME_SIZES and whole not in losses_of_backward:
            whole = values.resolved(whole.parents[0])
        if whole in losses_of_backward:
            return True
        types = self.model.shapes.types_of(tensor)
        return bool(types) and all(item.rank == 0 for item in types)

    def _begin_backward(self) -> Iterator[values.Value]:
        """The tensors whose `backward` gets no gradient argument, which only single numbers allow."""
        for trace in self.model.program.traces:
            for event in trace.of(events.Backward):
                if event.given_gradient is False:
                    yield from (event.loss, values.resolved(event.loss))

    def _masks_of_bytes(self) -> Iterator[MaskOfBytes]:
        for trace in self.model.program.traces:
            for event in trace.of_kinds(events.Compute, events.Mutate):
                name, given = _masked(event)
                mask = byte_masks.origin(given, self.model.definitions) if given is not None else None
                if mask is not None and event.site.inner is None:
                    yield MaskOfBytes(event.site, mask, f"`{name}`")

    # -- report ---------------------------------------------------------------------------------------

    def report_Use(self, use: changed_api.Use) -> None:
        change = use.change
        self.report(
            changed_api.place(use),
            f"{changed_api.subject(use)} {_EFFECT[change.status]} {change.release}",
            help=changed_api.advice(use),
            fix=self._fix(use),
        )

    def _fix(self, use: changed_api.Use) -> edits.Change | None:
        node = use.node
        if not isinstance(node, ast.ImportFrom):
            return repairs.changed_call(self.model, self.nodes, use)
        is_inf = use.name == "torch._six" and [alias.name for alias in node.names] == ["inf"]
        written = self.written(changed_api.place(use)) if is_inf else None
        if written is None:
            return None
        code = self.model.tree.code(node).replace("torch._six", "math")
        return edits.Change("import it from `math`", [edits.Replace(written, code)], Safety.SAFE)

    def report_ElementOfNumber(self, answer: ElementOfNumber) -> None:
        node = self.model.tree.node(answer.site)
        assert isinstance(node, ast.Subscript)
        owner = _without_wrapping(node.value)
        name = self.model.tree.code(owner)
        self.report(
            answer.site,
            f"`{name}` is a single number and cannot be indexed: this raises an `IndexError`",
            help=f"write `{name}.item()`" if "\n" not in name else "write `.item()`",
            fix=self._item(answer.site, name),
        )

    def _item(self, site: Site, name: str) -> edits.Change | None:
        written = self.written(site) if "\n" not in name else None
        return edits.Change("use `item()`", [edits.Replace(written, f"{name}.item()")]) if written is not None else None

    def report_MaskOfBytes(self, answer: MaskOfBytes) -> None:
        self.report(
            answer.site,
            f"{answer.operation} needs a boolean mask, but this is a byte mask: it raises an error",
            related=[(answer.mask, "the mask is made here")],
            help="create it with `.bool()`, or use the result of the comparison directly",
        )


_WORDS = AnyName("symeig matrix_rank lstsq gels potrf btrifact stft fft ifft rfft irfft eig solve".split())
_SIGNS = (LazyPattern(rb"volatile"), LazyPattern(rb"torch\W{1,99}_six"), LazyPattern(rb"testing\W{1,99}randn?\b"))
_READS = AnyName({"data", "numpy"})
_ELEMENT = LazyPattern(rb"\.[\s\\]{0,99}(?:data|numpy[\s\\]{0,99}\([\s\\]{0,99}\))[\s\\)]{0,99}\[[\s\\(]{0,99}-?\d")


def _may_use_removed(data: bytes) -> bool:
    has_scheduler = b"verbose" in data and (b"lr_sched" in data or b"LR" in data)
    return has_scheduler or any(sign.search(data) for sign in (_WORDS, *_SIGNS))


def _may_ask_number(data: bytes) -> bool:
    return _READS.search(data) and _ELEMENT.search(data) is not None


def _may_mask(data: bytes) -> bool:
    return b"masked_" in data and may_make_bytes(data)


_MAY = (_may_use_removed, _may_ask_number, _may_mask, may_store_number)
_EFFECT = {
    changes.Status.MISSING: "no longer exists as of",
    changes.Status.RAISES: "has raised an error since",
    changes.Status.IGNORED: "has done nothing since",
}


def _masked(event: events.Event) -> tuple[str, values.Value | None]:
    """The name of a masked operation, and its mask."""
    if isinstance(event, events.Mutate) and event.how == operators.MASKED_FILL_ and event.by:
        return event.how, event.by[0]
    if isinstance(event, events.Compute) and event.value.op in _MASKING and len(event.value.parents) > 1:
        return event.value.op, event.value.parents[1]
    return "", None


def _without_wrapping(node: ast.expr) -> ast.expr:
    """The wrapped expression: `loss` of `loss.data`, `loss.data.cpu().numpy()`, `loss.detach().cpu().numpy()`."""
    while True:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args:
            if node.func.attr not in ("cpu", "numpy", "detach"):
                return node
            node = node.func.value
        elif isinstance(node, ast.Attribute) and node.attr == "data":
            node = node.value
        else:
            return node
