"""Frozen parts of modules that `train()` on the whole puts back into training mode."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import Category, Confidence, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import values
from torchlint.model.relations import mode
from torchlint.pytorch import api, triggers
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.index import FileIndex


_FOLLOWING = LazyPattern(r"(?i)teacher|ema|momentum|target|key|critic|discriminator")
"""Names of frozen networks that follow another one, often in training mode."""


class FrozenPartInTrainingMode(Rule):
    """`train()` on the whole model puts a frozen part back into training mode.

    ## What it does
    Finds a part of a model that `eval()` puts into evaluation mode, but that a later `train()` on the whole model puts
    back into training mode. Nothing calls `eval()` on the part again. torchlint follows `__init__` and methods such as
    `freeze`.

    Not reported if the class overrides `train`, if its `forward` calls `eval()`, or if nothing in the part depends on
    the mode.

    If a frozen part has batch normalization and nothing puts it into evaluation mode, the finding has low confidence,
    because some programs update the running statistics of frozen layers on purpose.

    ## Why is this bad?
    `train()` also changes frozen parts. The batch normalization of a frozen backbone uses batch statistics again, and
    its pretrained running statistics drift. The dropout of a teacher makes its targets random.

    ## Example
    ```python
    import torch
    import torch.nn.functional as F
    import torchvision

    def train(loader, epochs):
        model = torchvision.models.resnet50(weights="DEFAULT")
        for module in model.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                module.eval()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for epoch in range(epochs):
            model.train()
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
    ```

    Use instead:
    ```python
    import torch
    import torch.nn.functional as F
    import torchvision

    def train(loader, epochs):
        model = torchvision.models.resnet50(weights="DEFAULT")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for epoch in range(epochs):
            model.train()
            for module in model.modules():
                if isinstance(module, torch.nn.BatchNorm2d):
                    module.eval()
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
    ```

    ## What verify shows
    `torchlint verify` tracks the part. It confirms the finding if the part is in training mode at later steps, and its
    statistics move or its dropout drops elements. It refutes the finding if the part returns to evaluation mode and
    stays there.

    ## Known limits
    torchlint does not follow `model.apply(function)`.

    ## References
    - [torch.nn.Module.train](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.train)
    """

    code = "TL118"
    category = Category.CORRECTNESS
    triggers = (triggers.BACKWARD, (b"train",), (*triggers.EVAL, b"requires_grad"))
    calls = frozenset({"eval", "train"})

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        return index.goes_backward

    def ask(self) -> Iterator[mode.SwitchedBack]:
        """One finding for each `train()` on a whole."""
        found: dict[python_ast.Site, mode.SwitchedBack] = {}
        for trace in [] if self.model.is_test else self.model.program.traces:
            for module, own in itertools.islice(self.model.mode.by_module(trace).items(), mode.MAX_MODULES):
                trained = [forward for forward in own if self.model.mode.is_trained(trace, forward)]
                for answer in self.model.mode.switched_back(trace, module, trained):
                    if self._is_changed(answer):
                        found.setdefault(answer.switch.site, answer)
        yield from found.values()

    def _is_changed(self, found: mode.SwitchedBack) -> bool:
        """Whether the mode certainly affects a part; for a merely frozen part, its statistics."""
        kept = self.model.training_layers.lost_by_part(found.part, found.whole)
        is_meant = found.evaluated is not None or not _FOLLOWING.search(self._label(found))
        return is_meant and (kept == api.STATISTICS or (found.evaluated is not None and kept is not None))

    def _label(self, found: mode.SwitchedBack) -> str:
        """The name of a part, as an attribute of the whole where possible."""
        info = values.class_of(found.whole)
        stored = self.model.program.attributes_of(info).items() if info is not None else ()
        lost, options = self.model.training_layers.lost_by_part, values.meanings(found.part)
        part = next((item for item in options if lost(item, found.whole) is not None), found.part)
        names = (name for name, value in stored if values.resolved(value) is part)
        return next(names, part.label) or "the model"

    def report_SwitchedBack(self, found: mode.SwitchedBack) -> None:
        kept = self.model.training_layers.lost_by_part(found.part, found.whole)
        name, back = f"`{self._label(found)}`", "to training, though it is frozen"
        if found.evaluated is not None:
            is_itself = found.part is values.resolved(found.evaluated.module)
            name, back = name if is_itself else f"layers of {name}", "back to training"
        self.report(
            found.switch.site,
            f"`train()` on the whole model switches {name} {back}, and so turns on {kept}",
            related=[(found.evaluated.site, "it enters evaluation mode here")] if found.evaluated else (),
            help="call its `eval()` after each `train()`, or override `train` in the model's class",
            confidence=Confidence.HIGH if found.evaluated is not None else Confidence.LOW,
        )
