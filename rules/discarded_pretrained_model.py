"""Calls to `from_pretrained` on a model, whose result is discarded."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.model import definitions
from torchlint.model.queries import written
from torchlint.syntax import python_ast

_LOADERS = frozenset({"from_pretrained", "load_from_checkpoint"})
_MAKERS = frozenset({"from_config", *_LOADERS})
_CHAINED = frozenset({"to", "cuda", "cpu", "half", "float", "eval", "train", "requires_grad_"})
_LIBRARIES = ("transformers.", "diffusers.", "peft.", "timm.")
_MODULES = ("LightningModule", "PreTrainedModel", "ModelMixin", "PyTorchModelHubMixin")


class Discarded(NamedTuple):
    """The call at `site` returns a model that nothing keeps; `receiver`, created at `made`, keeps its weights."""

    site: python_ast.Site
    made: python_ast.Site
    receiver: str
    method: str
    owner: str


class DiscardedPretrainedModel(Rule):
    """The result of `model.from_pretrained` is lost: `model` keeps its old weights.

    ## What it does
    Finds statements such as `model.from_pretrained(path)` and `model.load_from_checkpoint(path)`, where `model` is an
    object and the method is a class method that returns a new object.

    Not reported: calls on a class, such as `Model.from_pretrained(path)`, which may only fill the cache, and classes
    whose `from_pretrained` loads into the object itself.

    ## Why is this bad?
    The loaded weights belong to another model, which the code discards. `model` stays as it was created, which often
    means random weights, and there is no error.

    ## Example
    ```python
    from transformers import AutoConfig, AutoModel

    config = AutoConfig.from_pretrained("bert-base-uncased")
    model = AutoModel.from_config(config)
    model.from_pretrained("bert-base-uncased")
    ```

    Use instead:
    ```python
    from transformers import AutoModel

    model = AutoModel.from_pretrained("bert-base-uncased")
    ```

    ## References
    - [from_pretrained](https://huggingface.co/docs/transformers/main_classes/model): it returns the model
    """

    code = "TL139"
    category = Category.CORRECTNESS
    triggers = (tuple(name.encode() for name in sorted(_LOADERS)),)

    def ask(self) -> Iterator[Discarded]:
        for statement in [] if self.model.is_test else self.model.tree.of_type(ast.Expr):
            call = statement.value
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
                continue
            if call.func.attr in _LOADERS and python_ast.dotted(call.func.value):
                made = _without_moves(written.value_of(call.func.value, self.model.definitions))
                owner = _class_of(made) if isinstance(made, ast.Call) else None
                if owner is not None and self._is_class_method(owner, call.func.attr):
                    site, place = python_ast.site_of(call), python_ast.site_of(made)
                    name = python_ast.dotted(call.func.value)
                    yield Discarded(site, place, name, call.func.attr, python_ast.dotted(owner))

    def _is_class_method(self, owner: ast.expr, method: str) -> bool:
        """Whether a class certainly returns a new object from a method."""
        if self.model.definitions.named(owner).startswith(_LIBRARIES):
            return True
        info = self.model.definitions.class_named(python_ast.dotted(owner))
        return info is not None and _inherits(info, method, set())

    def report_Discarded(self, discarded: Discarded) -> None:
        self.report(
            discarded.site,
            f"`{discarded.method}` returns a new model, which is discarded: `{discarded.receiver}` keeps its weights",
            related=[(discarded.made, f"`{discarded.receiver}` is created here")],
            help=f"assign the result: `{discarded.receiver} = {discarded.owner}.{discarded.method}(...)`",
        )


def _inherits(info: definitions.ClassInfo, method: str, done: set[definitions.ClassInfo]) -> bool:
    """Whether a class has a class method of its own, or that of a library."""
    if info in done:
        return False
    done.add(info)
    if method in info.methods:
        return info.methods[method].has_decorator("classmethod") or info.methods[method].has_decorator("staticmethod")
    bases = info.definitions.bases(info)
    if any(isinstance(base, str) and base.rpartition(".")[2].endswith(_MODULES) for base in bases):
        return True
    return any(isinstance(base, definitions.ClassInfo) and _inherits(base, method, done) for base in bases)


def _without_moves(node: ast.expr) -> ast.expr:
    """The call that creates a model: `Net()` of `Net().to(device)`."""
    return python_ast.without_calls(node, _CHAINED)


def _class_of(made: ast.Call) -> ast.expr | None:
    """The class of which a call creates an object."""
    owner = made.func
    if isinstance(owner, ast.Attribute) and owner.attr in _MAKERS:
        owner = owner.value
    return owner if isinstance(owner, (ast.Name, ast.Attribute)) else None
