"""Teachers that compute their targets in training mode."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Confidence, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import events, program, values
from torchlint.model.relations import mode
from torchlint.pytorch import api, triggers
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.index import FileIndex

_TEACHER = LazyPattern(r"(?i)teacher|(^|_)old_(model|net)|(^|_)(model|net)_?old$|prev(ious)?_(model|net)")
_AVERAGED = LazyPattern(r"(?i)ema|mean|momentum|average")
"""Names of teachers that follow their students, often in training mode."""
_SWITCHING = ("eval", "train", "apply", "freeze")


class NoisyTeacher(NamedTuple):
    """`forward` computes targets with a teacher in training mode; `kept` is a layer's effect in training."""

    forward: mode.Pass
    made: python_ast.Site | None
    name: str
    kept: str | None


class TeacherInTrainingMode(Rule):
    """A teacher computes its targets in training mode.

    ## What it does
    Finds networks named like a teacher or an old model that run in training mode while another network trains. Their
    weights are loaded, or copied from a trained network. No optimizer holds them, they are not a running average, and
    nothing calls `eval()` on the network.

    If torchlint does not know the layers of the teacher, the finding has low confidence.

    ## Why is this bad?
    The student learns from a worse teacher than the trained one. Dropout makes the targets random. Batch
    normalization uses the statistics of each batch, and changes the teacher's running statistics.

    ## Example
    ```python
    import torch
    import torchvision

    def distill(student, loader):
        teacher = torchvision.models.resnet50(weights="DEFAULT")
        optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
        for x, y in loader:
            with torch.no_grad():
                target = teacher(x)
            optimizer.zero_grad()
            (student(x) - target).pow(2).mean().backward()
            optimizer.step()
    ```

    Use instead:
    ```python
    import torch
    import torchvision

    def distill(student, loader):
        teacher = torchvision.models.resnet50(weights="DEFAULT").eval()
        optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
        for x, y in loader:
            with torch.no_grad():
                target = teacher(x)
            optimizer.zero_grad()
            (student(x) - target).pow(2).mean().backward()
            optimizer.step()
    ```

    ## References
    - [torch.nn.Module.eval](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.eval)
    """

    code = "TL127"
    category = Category.CORRECTNESS
    triggers = (triggers.BACKWARD, (b"teacher", b"Teacher", b"old", b"prev"))

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        return index.goes_backward

    def ask(self) -> Iterator[NoisyTeacher]:
        """One finding for each teacher."""
        done: set[python_ast.Site | None] = set()
        for trace in [] if self.model.is_test else self.model.program.traces:
            passes = self.model.mode.by_module(trace) if trace.of(events.Step) else {}
            for module, own in itertools.islice(passes.items(), mode.MAX_MODULES):
                found = self._of_module(trace, module, own) if module.site not in done else None
                if found is not None:
                    done.add(module.site)
                    yield found

    def _of_module(self, trace: program.Trace, module: values.Value, own: list[mode.Pass]) -> NoisyTeacher | None:
        name = self._name(own[0])
        if not _TEACHER.search(name) or _AVERAGED.search(name) or module.has_use(*_SWITCHING):
            return None
        if not self._has_weights(module) or self._is_trained(trace, module) or self._is_averaged(name):
            return None
        if self._is_passed_on(trace, module) or _switches_itself(module):
            return None
        forward = own[0]
        settings = self.model.mode.at(trace, forward, module)
        is_as_made = bool(settings) and all(item.switch is None and item.since is None for item in settings)
        kept = self.model.training_layers.lost(module)
        is_noisy = kept not in (None, api.PRETRAINED_DROPOUT) or self.model.training_layers.is_unseen(module)
        return NoisyTeacher(forward, module.site, name, kept) if is_as_made and is_noisy else None

    def _name(self, forward: mode.Pass) -> str:
        """The name under which the code calls a network."""
        node = self.model.tree.node(forward.site)
        return python_ast.dotted(node.func) if isinstance(node, ast.Call) else ""

    def _has_weights(self, module: values.Value) -> bool:
        """Whether a network is created here with trained weights: loaded, copied or downloaded."""
        made = self.model.tree.node(module.site)
        if not isinstance(made, ast.Call):
            return False
        name = python_ast.called_name(made)
        given = [item for item in made.keywords if item.arg in ("weights", "pretrained")]
        is_pretrained = any(not (isinstance(item.value, ast.Constant) and not item.value.value) for item in given)
        return module.has_use("load_state_dict") or name == "deepcopy" or is_pretrained

    def _is_trained(self, trace: program.Trace, module: values.Value) -> bool:
        """Whether an optimizer may hold a network, or gradients flow through it."""
        optimizers = self.model.ownership.optimizers(trace)
        is_held = (module in self.model.ownership.held_by(item)[0] for item in optimizers)
        own = self.model.mode.by_module(trace)[module]
        return any(is_held) or any(self.model.mode.is_trained(trace, item) for item in own)

    def _is_averaged(self, name: str) -> bool:
        """Whether the code repeatedly copies weights into a network of this name."""
        last = name.rpartition(".")[2]
        calls = (item.node for item in self.model.provenance.copies if python_ast.last_name(item.target) == last)
        names = (info.name for info in self.model.definitions.functions.values())
        is_loaded = all(
            python_ast.called_name(item) == "load_state_dict" for item in calls if isinstance(item, ast.Call)
        )
        return not is_loaded or any(map(_AVERAGED.search, names))

    def _is_passed_on(self, trace: program.Trace, module: values.Value) -> bool:
        """Whether each iteration passes a network to an unknown function: `update_teacher(student, teacher)`."""
        given = (map(values.resolved, event.value.parents) for event in trace.of(events.Call) if event.loops)
        return any(module in items for items in given)

    def report_NoisyTeacher(self, found: NoisyTeacher) -> None:
        layers = f", with {found.kept}" if found.kept else ""
        self.report(
            found.forward.site,
            f"`{found.name}` computes targets in training mode{layers}: nothing calls `eval()`",
            related=[(found.made, "it is created here")] if found.made is not None else [],
            help=f"call `{found.name}.eval()` before training",
            confidence=Confidence.HIGH if found.kept else Confidence.LOW,
        )


def _switches_itself(module: values.Value) -> bool:
    """Whether the class of a network has its own `train`."""
    return isinstance(module, values.Module) and module.info is not None and "train" in module.info.methods
