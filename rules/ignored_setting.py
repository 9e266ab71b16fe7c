"""Settings that a loss or a model stores and never reads."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Confidence, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import definitions
from torchlint.model.queries import given, numbers
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_OF_LOSSES = LazyPattern(
    r"margin|ignore_?(index|idx|label)|temp(erature)?|tau|gamma|alpha|(label_)?smoothing|reduction|size_average"
    r"|pos_weight|class_weights?"
)
"""Settings that change the result of a loss."""
_OF_MODELS = LazyPattern(r"margin|ignore_?(index|idx|label)|label_smoothing|pos_weight|class_weights?")
"""Settings that change the loss that a model computes itself."""
_OPTIONS = frozenset("ignore_index label_smoothing pos_weight class_weights reduction size_average".split())
"""Settings that PyTorch's losses take."""
_PADDING = LazyPattern(r"(src|trg|tgt|source|target|enc|dec)_(pad(?:ding)?_?(?:idx|id|index|token))$")
_LOSS = LazyPattern(r"Loss|Criterion|Objective|Smoothing|Focal|Triplet|Contrast|InfoNCE|NTXent|ArcFace|CosFace")
_LOSSES = frozenset("cross_entropy nll_loss binary_cross_entropy binary_cross_entropy_with_logits".split())
_PLAIN = frozenset({"object", "torch.nn.Module", "torch.nn.modules.module.Module"})
_REACHING = frozenset({"getattr", "vars", "__dict__", "locals", "hasattr", "extra_repr", "save_hyperparameters"})


class Ignored(NamedTuple):
    """The class stores `name` at `stored`, but code at `site` does without; the call at `given` sets it."""

    site: Site
    stored: Site
    name: str
    owner: str
    given: Site | None


class IgnoredSetting(Rule):
    """A loss or model stores a setting such as a margin, but never reads it.

    ## What it does
    Finds losses whose `__init__` stores `margin`, `ignore_index`, `temperature`, `gamma`, `reduction` or another
    setting of a loss, where no code reads the attribute. The same holds for models that compute their own loss. Also
    finds models that store a padding index for sources and one for targets, but read only one of the two. If no call
    sets the parameter, the finding needs `--preview`.

    ## Why is this bad?
    The value that the caller passes has no effect. The loss uses a number in its code, or PyTorch's default. With an
    unused `ignore_index`, the model learns to predict padding. A search over this setting only measures noise.

    ## Example
    ```python
    import torch
    import torch.nn.functional as F

    class TripletLoss(torch.nn.Module):
        def __init__(self, margin=0.1):
            super().__init__()
            self.margin = margin

        def forward(self, positive, negative):
            return F.relu(positive - negative + 0.1).mean()

    criterion = TripletLoss(margin=0.5)
    ```

    Use instead:
    ```python
    import torch
    import torch.nn.functional as F

    class TripletLoss(torch.nn.Module):
        def __init__(self, margin=0.1):
            super().__init__()
            self.margin = margin

        def forward(self, positive, negative):
            return F.relu(positive - negative + self.margin).mean()

    criterion = TripletLoss(margin=0.5)
    ```

    ## References
    - [torch.nn.TripletMarginLoss](https://docs.pytorch.org/docs/stable/generated/torch.nn.TripletMarginLoss.html)
    """

    code = "TL556"
    category = Category.SUSPICIOUS
    preview = True
    triggers = (
        (b"torch",),
        (b"self.",),
        tuple(
            b"margin ignore_ temp tau gamma alpha smoothing reduction size_average pos_weight class_weight pad".split()
        ),
    )

    def ask(self) -> Iterator[Ignored]:
        for info in () if self.model.is_test else self.model.definitions.classes.values():
            if self._is_own(info):
                yield from self._ignored(info)

    def _is_own(self, info: definitions.ClassInfo) -> bool:
        """Whether no other class may read the attributes of a class, and the class computes something."""
        others = [item for item in info.ancestors() if item is not info]
        is_base = any(
            info in other.ancestors() for other in self.model.definitions.classes.values() if other is not info
        )
        is_base |= info.name.startswith("_") or "Base" in info.name
        computes = info.method("forward") is not None or info.method("__call__") is not None
        return all(item in _PLAIN for item in others) and not is_base and computes

    def _ignored(self, info: definitions.ClassInfo) -> Iterator[Ignored]:
        init = info.methods.get("__init__")
        if init is None or isinstance(init.node, ast.Lambda):
            return
        for statement in python_ast.walk(init.node):
            if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
                continue
            target, value = statement.targets[0], statement.value
            is_stored = isinstance(target, ast.Attribute) and python_ast.dotted(target.value) == "self"
            if not is_stored or not isinstance(target, ast.Attribute) or not isinstance(value, ast.Name):
                continue
            name = value.id
            if name == target.attr and name in init.parameters and self._matters(name, info):
                is_passed = self._reads_of(name, init.node) > 1 and _PADDING.fullmatch(name) is None
                if not is_passed and not self._is_read(name):
                    call = self._setting(info, init, name)
                    place = self._place(info, init, name) or statement
                    yield Ignored(python_ast.site_of(place), python_ast.site_of(statement), name, info.name, call)

    def _place(self, info: definitions.ClassInfo, init: definitions.FunctionInfo, name: str) -> ast.AST | None:
        """The code that should use a setting: a call of a loss, its default as a literal, or the other padding."""
        default = numbers.literal(definitions.defaults_of(init.node).get(name))
        padding = _PADDING.fullmatch(name)
        for method in info.methods.values():
            for node in python_ast.walk(method.node) if method is not init else ():
                if padding is not None:
                    if _is_other_padding(node, padding[1], padding[2]):
                        return node
                elif isinstance(node, ast.Call):
                    if name in _OPTIONS and python_ast.called_name(node) in _LOSSES:
                        return node
                elif default not in (None, 0, 1) and numbers.literal(node) == default:
                    return node
        return None

    def _matters(self, name: str, info: definitions.ClassInfo) -> bool:
        """Whether a setting changes a loss that the class computes, or a mask of padding."""
        if _LOSS.search(info.name):
            return bool(_OF_LOSSES.fullmatch(name))
        if (padding := _PADDING.fullmatch(name)) is not None:
            reads = [
                item.attr
                for item in python_ast.walk(info.node)
                if isinstance(item, ast.Attribute) and isinstance(item.ctx, ast.Load) and _PADDING.fullmatch(item.attr)
            ]
            return sum(item.endswith(padding[2]) for item in reads) > 1
        calls = [item for item in python_ast.walk(info.node) if isinstance(item, ast.Call)]
        found = [item for item in calls if python_ast.called_name(item) in _LOSSES]
        return bool(found) and bool(_OF_MODELS.fullmatch(name)) and not any(_is_set(item, name) for item in found)

    def _reads_of(self, name: str, init: ast.AST) -> int:
        return sum(
            isinstance(item, ast.Name) and item.id == name and isinstance(item.ctx, ast.Load)
            for item in python_ast.walk(init)
        )

    def _is_read(self, name: str) -> bool:
        """Whether code of the program reads an attribute of this name, or may read it by a string."""
        for node in self.model.tree.of_type(ast.Attribute, ast.Name, ast.Constant):
            if isinstance(node, ast.Attribute):
                if (node.attr == name and isinstance(node.ctx, ast.Load)) or node.attr in _REACHING:
                    return True
            elif isinstance(node, ast.Name):
                if node.id in _REACHING:
                    return True
            elif node.value == name:
                return True
        read = f".{name}".encode()
        return any(read in text for text in self.model.imported_texts)

    def _setting(self, info: definitions.ClassInfo, init: definitions.FunctionInfo, name: str) -> Site | None:
        """A call that creates an object with another value than the default."""
        place = init.parameters.index(name) - 1
        default = definitions.defaults_of(init.node).get(name)
        for call in self.model.tree.of_type(ast.Call):
            if given.may_give(call, name, place, info.name) and python_ast.called_name(call) == info.name:
                value = next((item.value for item in call.keywords if item.arg == name), None)
                value = call.args[place] if value is None and len(call.args) > place >= 0 else value
                number = numbers.literal(value)
                if value is not None and (number is None or number != numbers.literal(default)):
                    return python_ast.site_of(call)
        return None

    def report_Ignored(self, found: Ignored) -> None:
        related = [(found.stored, "it is stored here")] if found.stored != found.site else []
        self.report(
            found.site,
            f"`{found.owner}` stores `{found.name}`, but no code reads it: the setting has no effect",
            related=[*related, *([(found.given, "a value is passed here")] if found.given is not None else [])],
            help=f"use `self.{found.name}` in the computation",
            confidence=Confidence.HIGH if found.given is not None else Confidence.LOW,
        )


def _is_set(call: ast.Call, name: str) -> bool:
    """Whether a call of a loss gets the setting by keyword."""
    return any(item.arg in (None, name, name.removeprefix("class_")) for item in call.keywords)


def _is_other_padding(node: ast.AST, side: str, suffix: str) -> bool:
    """Whether a call or comparison combines a tensor of one side with the padding index of the other side."""
    if not isinstance(node, (ast.Call, ast.Compare)):
        return False
    names = {item.id for item in python_ast.walk(node) if isinstance(item, ast.Name)}
    read = {item.attr for item in python_ast.walk(node) if isinstance(item, ast.Attribute)}
    is_other = any(item.endswith(suffix) and not item.startswith(side) for item in read)
    return is_other and any(item.startswith(side[:2]) for item in names)
