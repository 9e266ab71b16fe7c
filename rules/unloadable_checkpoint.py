"""Checkpoints that the same program saves and cannot load."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_SAFE_SINCE = (2, 6)
"""The first release whose `torch.load` loads only weights by default."""
_ALLOWING = ("safe_globals", "NO_WEIGHTS_ONLY", "pickle_module")
"""Words in files that allow other objects."""
_OF_ARRAYS = frozenset({"mean", "sum", "max", "min", "std", "copy", "astype", "round"})
"""Methods of NumPy's arrays that give numbers or arrays of NumPy."""
_OF_MODULES = frozenset({"parameters", "named_parameters", "state_dict", "train", "eval", "load_state_dict"})


class Refused(NamedTuple):
    """The `torch.load` at `site` refuses the entry `key`, or everything, that is saved at `saved`."""

    site: Site
    key: str
    what: str
    saved: Site


class UnloadableCheckpoint(Rule):
    """A program cannot load the checkpoint that it saves.

    ## What it does
    Finds `torch.save` and `torch.load` of one path in a file, where the load accepts only weights, the default since
    PyTorch 2.6. The checkpoint holds a whole module or optimizer, the arguments of the program, or NumPy values.

    ## Why is this bad?
    `torch.load` raises `UnpicklingError`. The error appears after training, when the weights are needed.

    ## Example
    ```python
    import torch

    def save(model):
        model.eval()
        torch.save(model, "model.pt")

    def load():
        return torch.load("model.pt")
    ```

    Use instead:
    ```python
    import torch

    def save(model):
        model.eval()
        torch.save(model.state_dict(), "model.pt")

    def load(model):
        model.load_state_dict(torch.load("model.pt"))
    ```

    ## References
    - [torch.load](https://docs.pytorch.org/docs/stable/generated/torch.load.html): "weights_only"
    """

    code = "TL807"
    category = Category.CORRECTNESS
    triggers = ((b"save",), (b"load",), (b"torch",))

    def ask(self) -> Iterator[Refused]:
        if self.model.is_test:
            return
        files = self.model.provenance.files
        text = self.model.tree.source.text
        may_refuse = self.model.torch.highest >= _SAFE_SINCE and not any(word in text for word in _ALLOWING)
        for call in self.model.tree.of_type(ast.Call) if files.saves and may_refuse else ():
            if self.model.definitions.named(call.func) == "torch.load" and self._is_default(call):
                yield from self._refused(call)

    def _is_default(self, load: ast.Call) -> bool:
        return len(load.args) < 3 and not any(item.arg in ("weights_only", None) for item in load.keywords)

    def _refused(self, load: ast.Call) -> Iterator[Refused]:
        for saved, call in self.model.provenance.files.saved_for(load):
            for key, value in self.model.provenance.files.entries(saved):
                what = self._refused_class(value)
                if what:
                    yield Refused(python_ast.site_of(load), key, what, python_ast.site_of(call))
                    return

    def _refused_class(self, value: ast.expr, depth: int = 2) -> str:
        """The kind of a value that `torch.load` refuses, or an empty string if it may accept the value."""
        if isinstance(value, (ast.Name, ast.Attribute)) and self._is_module(value):
            return "a module"
        if self.model.provenance.is_optimizer(value):
            return "an optimizer"
        files = self.model.provenance.files
        made = files.value_at(value) or self.model.provenance.created(value)
        if made is None and (given := files.given(value)) and depth:
            kinds = {self._refused_class(item, depth - 1) for item in given}
            return kinds.pop() if len(kinds) == 1 else ""
        if isinstance(made, ast.Call) and python_ast.called_name(made) == "parse_args":
            return "the arguments of the program"
        return "a NumPy value" if made is not None and self._is_numpy(made) else ""

    def _is_numpy(self, made: ast.expr) -> bool:
        """Whether a value surely is a number or an array of NumPy: `np.mean(x)`, `np.array(x).max()`."""
        if isinstance(made, ast.Call):
            if self.model.definitions.named(made.func).startswith("numpy."):
                return True
            owner = made.func.value if isinstance(made.func, ast.Attribute) else None
            if owner is None or python_ast.called_name(made) not in _OF_ARRAYS:
                return False
            value = self.model.provenance.files.value_at(owner)
            return value is not None and self._is_numpy(value)
        return isinstance(made, ast.BinOp) and (self._is_numpy(made.left) or self._is_numpy(made.right))

    def _is_module(self, value: ast.expr) -> bool:
        """Whether a name means a module, judged by the call that creates it or by its method calls."""
        made = self.model.provenance.created(value)
        if isinstance(made, ast.Call) and self.model.provenance.has_weights(made):
            return True
        scope = self.model.definitions.method_around(value)
        owner = scope.owner if scope is not None and isinstance(value, ast.Attribute) else None
        region = owner.node if owner is not None else scope.node if scope is not None else self.model.tree.module
        used = (
            node for node in python_ast.walk(region) if isinstance(node, ast.Attribute) and node.attr in _OF_MODULES
        )
        uses = {node.attr for node in used if python_ast.written_alike(node.value, value)}
        return bool(uses & {"parameters", "named_parameters"}) or len(uses) > 1 or uses == {"eval"}

    # -- report ----------------------------------------------------------------------------------------

    def report_Refused(self, refused: Refused) -> None:
        what = f"`{refused.key}`, {refused.what}" if refused.key else refused.what
        self.report(
            refused.site,
            f"`torch.load` refuses {what}: since PyTorch 2.6, `weights_only` is true by default",
            related=[(refused.saved, "it is saved here")],
            help="save state dictionaries and plain values, or pass `weights_only=False` for your own file",
        )
