"""Pretrained models that compute features or predictions in training mode."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.model import definitions
from torchlint.model.queries import names, torch_classes, variables
from torchlint.pytorch import api, naming
from torchlint.syntax import python_ast

_SWITCHES = (b".eval(", b"train(False", b"train(mode", b".training", b"BatchNorm", b"apply(")
"""Code that may put a module into evaluation mode, or change the layers that depend on the mode."""
_OFF = ("no_grad", "inference_mode")
_MOVES = ("to", "cuda", "cpu", "float", "half", "requires_grad_")
_WRAPPERS = frozenset({"Sequential", "DataParallel", "compile"})
_HARMLESS = frozenset({"print", "DataParallel", "Sequential", "list", "summary", "len", "id", "compile"})
"""Functions that do not change the mode of a module that they get."""
_STEPS = 4


class InTraining(NamedTuple):
    """The call at `site` runs `name`, made at `made`, in training mode, with the effect `lost`."""

    site: python_ast.Site
    made: python_ast.Site
    name: str
    lost: str


class FeaturesInTrainingMode(Rule):
    """A pretrained model computes features in training mode: nothing calls `eval()`.

    ## What it does
    Finds pretrained torchvision models that run without gradients in a file without any call of `eval()`. The model may
    be cut with `nn.Sequential`, or be an attribute of a module of the program.

    Not reported if the code passes the model to an unknown function, returns it, or stores it elsewhere.

    ## Why is this bad?
    A new model is in training mode, even with pretrained weights. Batch normalization then uses the statistics of each
    batch, perhaps of a single image, and overwrites the pretrained statistics. Dropout removes features at random. The
    features of an image depend on the other images of its batch.

    ## Example
    ```python
    import torch
    from torchvision import models

    def extract(loader):
        net = models.resnet50(weights="DEFAULT")
        features = []
        with torch.no_grad():
            for images in loader:
                features.append(net(images))
        return torch.cat(features)
    ```

    Use instead:
    ```python
    import torch
    from torchvision import models

    def extract(loader):
        net = models.resnet50(weights="DEFAULT").eval()
        features = []
        with torch.no_grad():
            for images in loader:
                features.append(net(images))
        return torch.cat(features)
    ```

    ## References
    - [torch.nn.Module.eval](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.eval)
    """

    code = "TL154"
    category = Category.CORRECTNESS
    triggers = ((b"torchvision",), (b"pretrained", b"weights"), (b"no_grad", b"inference_mode", b"numpy"))

    def ask(self) -> Iterator[InTraining]:
        if self.model.is_test or any(word in self.model.tree.source.code for word in _SWITCHES):
            return
        done = set[python_ast.Site]()
        for call in self.model.tree.of_type(ast.Call):
            if not isinstance(call.func, ast.Name) or not self._is_without_gradients(call):
                continue
            made = self._made(call.func)
            site = python_ast.site_of(made) if made is not None else None
            if made is not None and site not in done and self._stays_here(call.func):
                lost = api.lost_by_model(names.imported(made.func, self.model.definitions))
                if lost is not None:
                    done.add(python_ast.site_of(made))
                    yield InTraining(python_ast.site_of(call), python_ast.site_of(made), call.func.id, lost)

    def _is_without_gradients(self, call: ast.Call) -> bool:
        """Whether the result of a call is used, and the code around turns gradients off."""
        if self.model.tree.stands_alone(call):
            return False
        for item in self.model.tree.ancestors(call):
            if isinstance(item, ast.With):
                if any(python_ast.called_name(each.context_expr) in _OFF for each in item.items
                       if isinstance(each.context_expr, ast.Call)):  # fmt: skip
                    return True
            elif isinstance(item, python_ast.FUNCTIONS):
                if naming.STOCHASTIC.search(item.name):
                    return False
                return any(word in ast.unparse(each) for each in item.decorator_list for word in _OFF)
        return False

    def _made(self, name: ast.Name, steps: int = _STEPS) -> ast.Call | None:
        """The call that creates the pretrained model of a variable, if all its values contain this model."""
        known = self.model.definitions
        if variables.is_parameter(name.id, name, known) or variables.is_shared(name.id, known):
            return None
        found = None
        bound = variables.bindings(name.id, name, known) or self._of_module(name.id)
        for target in bound:
            value = names.bound_value(target, self.model.tree)
            inner = self._pretrained(value, steps) if value is not None else None
            if inner is None:
                return None
            found = inner if isinstance(inner, ast.Call) else found
        return found

    def _of_module(self, name: str) -> list[ast.Name]:
        """The assignments to a variable of the module."""
        nodes: Iterator[ast.Name] = self.model.tree.of_type(ast.Name)
        same = (item for item in nodes if item.id == name and not isinstance(item.ctx, ast.Load))
        return [item for item in same if self.model.tree.function_around(item) is None]

    def _pretrained(self, value: ast.expr, steps: int) -> ast.expr | None:
        """The creation of the pretrained model in a value; the variable itself for `net = net.cuda()`."""
        value = python_ast.without_calls(value, _MOVES)
        if isinstance(value, ast.Name):
            return (self._made(value, steps - 1) or value) if steps else None
        if not isinstance(value, ast.Call) or not steps:
            return None
        name = names.imported(value.func, self.model.definitions)
        lost = api.lost_by_model(name)
        if lost is not None:
            return value if _has_weights(value) else None
        if name.startswith("torch.") and name.rpartition(".")[2] in _WRAPPERS:
            inner = [item for item in python_ast.walk(value) if isinstance(item, ast.Name)]
            made = [self._made(item, steps - 1) for item in inner if item.id not in ("list", "nn", "torch")]
            calls = [item for item in made if item is not None]
            is_cut = name.endswith("Sequential")
            only = calls[0] if len(calls) == 1 else None
            keeps = only is not None and (not is_cut or "batch" in (self._effect(only) or ""))
            return only if keeps else None
        return self._inside(value)

    def _effect(self, made: ast.Call) -> str | None:
        return api.lost_by_model(names.imported(made.func, self.model.definitions))

    def _inside(self, call: ast.Call) -> ast.Call | None:
        """The pretrained model that `__init__` of a module of this file creates."""
        info = self.model.definitions.class_named(python_ast.dotted(call.func))
        init = info.methods.get("__init__") if isinstance(info, definitions.ClassInfo) else None
        if info is None or init is None or init.definitions is not self.model.definitions:
            return None
        if not torch_classes.is_module_class(info) or "train" in info.methods:
            return None
        made = [
            item for item in python_ast.walk(init.node)
            if isinstance(item, ast.Call) and "batch" in (self._effect(item) or "") and _has_weights(item)
        ]  # fmt: skip
        is_certain = not any(isinstance(item, (ast.If, ast.IfExp)) for item in python_ast.walk(init.node))
        return made[0] if len(made) == 1 and is_certain else None

    def _stays_here(self, name: ast.Name) -> bool:
        """Whether no other code gets the model, which might switch its mode."""
        nodes: Iterator[ast.Name] = self.model.tree.of_type(ast.Name)
        for item in nodes:
            around = self.model.tree.parent(item)
            if item.id != name.id or not isinstance(item.ctx, ast.Load):
                continue
            if isinstance(around, ast.Call) and item is not around.func:
                if python_ast.called_name(around) not in _HARMLESS:
                    return False
            elif not isinstance(around, (ast.Call, ast.Attribute)) and not isinstance(around, ast.Starred):
                return False
        return True

    def report_InTraining(self, found: InTraining) -> None:
        self.report(
            found.site,
            f"`{found.name}` runs in training mode, with {found.lost}: nothing calls `eval()`",
            related=[(found.made, "the pretrained model is created here")],
            help=f"call `{found.name}.eval()` first",
        )


def _has_weights(call: ast.Call) -> bool:
    """Whether a call creates a torchvision model with pretrained weights."""
    given = {item.arg: item.value for item in call.keywords}
    if "weights" in given:
        return not python_ast.is_literal(given["weights"], None)
    first = given.get("pretrained", call.args[0] if call.args else None)
    return first is not None and python_ast.is_literal(first, True)
