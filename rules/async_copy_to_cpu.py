"""Copies to the CPU that are read before they have arrived."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule, repairs
from torchlint.model.queries import host_reads
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_PLACING = frozenset("detach view reshape flatten squeeze unsqueeze permute transpose t contiguous data T".split())
"""Methods that return the same memory, or ask for it, and read no values."""
_READING = frozenset(
    "numpy item tolist clone sum mean max min argmax argmin std any all float double half int long bool abs exp log "
    "sqrt round sort topk unique nonzero".split()
)
_READERS = frozenset({"float", "int", "bool", "print", "str", "repr", "sum", "max", "min"})
_LIBRARIES = ("torch.", "numpy.")
_WAITING = frozenset(
    "synchronize wait wait_stream wait_event item tolist cpu nonzero barrier all_reduce all_gather query".split()
)
"""Calls that wait for the GPU, so that an earlier copy has arrived or may have."""


class ReadTooEarly(NamedTuple):
    """The code reads the copy from `copy` at `read` in the same function, and nothing waits in between."""

    copy: Site
    read: Site
    name: str


class AsyncCopyToCpu(Rule):
    """A copy to the CPU is read before it has arrived.

    ## What it does
    Finds `tensor.to("cpu", non_blocking=True)`, if the same function then prints the result, computes with it or
    converts it to numbers. Not reported if the function first calls `synchronize`, `wait` or `item()`, or copies
    something else to the CPU.

    Also not reported:

    - copies that the code only stores, returns or passes to your own function, because the code that receives them may
      wait
    - `copy_(..., non_blocking=True)`, which waits unless the target is pinned memory
    - moves of modules

    ## Why is this bad?
    The values can be wrong, without an error. The copy goes into pinned memory, and Python does not wait for it. Python
    then reads what this memory held before: zeros, or the values of another batch. On an H200 with queued work, all 40
    copies that were read immediately were wrong. With an idle GPU, none of 200 copies was wrong, so tests do not show
    the bug. A copy to the GPU is safe, because later work on the GPU waits for it.

    ## Example
    ```python
    import torch

    def predict(model, loader):
        found = []
        for x in loader:
            with torch.no_grad():
                scores = model(x.cuda()).to("cpu", non_blocking=True)
            found.append(scores.numpy())
        return found
    ```

    Use instead:
    ```python
    import torch

    def predict(model, loader):
        found = []
        for x in loader:
            with torch.no_grad():
                scores = model(x.cuda()).to("cpu")
            found.append(scores.numpy())
        return found
    ```

    ## Fix safety
    The fix removes `non_blocking=True`. It is unsafe because each copy then waits for the GPU. If you make several
    copies, you can keep `non_blocking=True` and call `torch.cuda.synchronize()` once after the last one.

    ## References
    - [A guide on good usage of `non_blocking` and `pin_memory()`](https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html):
      "attempting `cuda_tensor.to("cpu", non_blocking=True).mean()` will result in erroneous outputs"
    """

    code = "TL405"
    category = Category.CORRECTNESS
    preview = True
    triggers = ((b"torch",), (b"non_blocking",), (b"cpu",))

    def ask(self) -> Iterator[ReadTooEarly]:
        for call in self.model.tree.of_type(ast.Call):
            if self._copies_to_cpu(call):
                read = self._read(call)
                if read is not None:
                    yield read

    def _copies_to_cpu(self, call: ast.Call) -> bool:
        """`x.to("cpu", non_blocking=True)`, with any known spelling of the device."""
        if not isinstance(call.func, ast.Attribute) or call.func.attr != "to":
            return False
        given = {item.arg: item.value for item in call.keywords}
        device, option = given.get("device", call.args[0] if call.args else None), given.get("non_blocking")
        waits = option is None or not python_ast.is_literal(option, True)
        return device is not None and not waits and host_reads.is_host(device, self.model.definitions)

    # -- reads ------------------------------------------------------------------------------------------

    def _read(self, copy: ast.Call) -> ReadTooEarly | None:
        """The first read of a copy, unless something has waited for it by then."""
        whole = self._placed(copy)
        if self._is_read(whole):
            return ReadTooEarly(python_ast.site_of(copy), python_ast.site_of(whole), "")
        first = self._kept_in(whole)
        names = {first} - {""}
        for node in self._after(copy) if names else ():
            if isinstance(node, ast.Call):
                if python_ast.called_name(node) in _WAITING or not names:
                    return None
            elif python_ast.dotted(node) in names:
                whole = self._placed(node)
                if self._is_read(whole):
                    return ReadTooEarly(python_ast.site_of(copy), python_ast.site_of(node), first)
                if isinstance(node.ctx, ast.Store):
                    names.remove(python_ast.dotted(node))
                else:
                    names |= {self._kept_in(whole)} - {""}
        return None

    def _placed(self, node: ast.expr) -> ast.expr:
        """An expression with all following parts that read nothing: `copy.view(-1)[0]`."""
        parent = self.model.tree.parent(node)
        if isinstance(parent, ast.Subscript) and parent.value is node:
            return self._placed(parent)
        if isinstance(parent, ast.Attribute) and parent.attr in _PLACING:
            call = self.model.tree.parent(parent)
            return self._placed(call if isinstance(call, ast.Call) and call.func is parent else parent)
        return node

    def _is_read(self, node: ast.expr) -> bool:
        """Whether the code around an expression needs its values."""
        parent = self.model.tree.parent(node)
        if parent is None or any(python_ast.called_name(item) in _WAITING for item in _calls_in(parent)):
            return False
        if isinstance(parent, ast.Attribute):
            return parent.attr in _READING and isinstance(self.model.tree.parent(parent), ast.Call)
        if isinstance(parent, ast.Call) and node is not parent.func:
            called = self.model.definitions.qualified(python_ast.dotted(parent.func), parent)
            return called in _READERS or called.startswith(_LIBRARIES)
        return isinstance(parent, (ast.BinOp, ast.Compare, ast.UnaryOp, ast.AugAssign, ast.FormattedValue))

    def _kept_in(self, whole: ast.expr) -> str:
        """The name assigned to a copy, or the name of the list that it is appended to."""
        parent = self.model.tree.parent(whole)
        if isinstance(parent, ast.Assign) and parent.value is whole and len(parent.targets) == 1:
            return python_ast.dotted(parent.targets[0])
        if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Attribute) and parent.func.attr == "append":
            return python_ast.dotted(parent.func.value)
        return ""

    def _after(self, copy: ast.Call) -> list[ast.Call | ast.Name | ast.Attribute]:
        """Calls and names evaluated after a copy in the same function, in order."""
        tree, end = self.model.tree, python_ast.end_of(self.model.tree.statement(copy))
        function = tree.function_around(copy)
        later = (node for node in tree.of_type(ast.Call, ast.Name, ast.Attribute) if python_ast.end_of(node) > end)
        arms = {other for arm in self._other_arms(copy) for other in arm}
        here = [
            node for node in later if tree.function_around(node) is function and arms.isdisjoint(tree.ancestors(node))
        ]
        return sorted(here, key=self._evaluated)

    def _evaluated(self, node: ast.Call | ast.Name | ast.Attribute) -> tuple[int, int]:
        """The time at which an expression is evaluated; an assignment's target comes after its whole statement."""
        is_target = not isinstance(node, ast.Call) and isinstance(node.ctx, ast.Store)
        return python_ast.end_of(self.model.tree.statement(node) if is_target else node)

    def _other_arms(self, copy: ast.Call) -> Iterator[list[ast.stmt]]:
        """Statements that do not run together with a copy: the other branches around it."""
        inside: ast.AST = copy
        for above in self.model.tree.ancestors(copy):
            if isinstance(above, ast.If) and inside is not above.test:
                yield above.orelse if inside in above.body else above.body
            inside = above

    def report_ReadTooEarly(self, answer: ReadTooEarly) -> None:
        what = f"`{answer.name}`" if answer.name else "the copy"
        self.report(
            answer.copy,
            f"{what} is read before it has arrived from the GPU: `non_blocking=True` does not wait",
            related=[(answer.read, "it is read here")] if answer.name else [],
            help="remove `non_blocking=True`, or call `torch.cuda.synchronize()` before the read",
            fix=repairs.without_argument(self.nodes, answer.copy, "non_blocking"),
        )


def _calls_in(node: ast.AST) -> Iterator[ast.Call]:
    return (item for item in python_ast.inside(node) if isinstance(item, ast.Call))
