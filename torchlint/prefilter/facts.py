"""What the text around a function says of the names in it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from torchlint.prefilter.effects import ALL, FIRST, NONE, Effect
from torchlint.prefilter.known import OPERATORS_OF_TORCH, SAVING
from torchlint.prefilter.makers import HOLDERS, Makers
from torchlint.prefilter.outline import Outline
from torchlint.prefilter.searches import goes_backward
from torchlint.pytorch.autograd_table import INPLACE_MODULES, MODULES, MODULES_WITHOUT_PARAMETERS

_MODULE_BASES = frozenset({"Module", "LightningModule", "PreTrainedModel"}) | MODULES.keys()


class Facts:
    """Answers about the names of a file."""

    def __init__(self, makers: Makers, outline: Outline) -> None:
        self.makers = makers
        self.outline = outline

    def effect(self, name: str, classes: frozenset[str] | None = None) -> Effect:
        """What calling a function of the file does."""
        raise NotImplementedError

    @cached_property
    def goes_backward(self) -> bool:
        return goes_backward(self.outline)

    def defines(self, name: str) -> bool:
        return name in self.outline.by_name

    def bases(self, owner: str) -> frozenset[str]:
        return self.outline.family(owner)

    def is_parameter(self, name: str) -> bool:
        return name in self.makers.parameters

    def is_used_as_module(self, name: str) -> bool:
        return name in self.makers.used_as_modules

    def is_class(self, name: str) -> bool:
        return name in self.outline.bases

    @property
    def changes_attributes(self) -> bool:
        raise NotImplementedError

    def is_module(self, name: str) -> bool:
        bases = {base for item in (name, *self.bases(name)) for base in self.outline.bases.get(item, ())}
        return not _MODULE_BASES.isdisjoint(bases | {name})

    def made(self, name: str, owner: str) -> tuple[str, ...]:
        return self.makers.made(name, owner)[0] if name else ()

    def module(self, name: str, owner: str, *, itself: bool) -> Effect:
        if name in MODULES or self.is_class(name):
            return self.of_made([name])
        made, in_place = self.makers.made(name, owner)
        if itself and made[:1] == ("Sequential",):
            return Effect(tracks=True, changes=FIRST if self._opens_in_place(made[1:], in_place) else NONE)
        return self.of_made(made) | Effect(changes=FIRST if in_place else NONE)

    def _opens_in_place(self, layers: Iterable[str], in_place: bool) -> bool:
        """Whether the first of some layers may overwrite what it is given; `in_place` if one of them does."""
        first = next((item for item in layers if item != "OrderedDict"), "")
        return in_place and first in INPLACE_MODULES if first in MODULES else self.makers.work_in_place

    def of_made(self, made: Iterable[str]) -> Effect:
        found = Effect()
        known = False
        for item in made:
            if item in HOLDERS:
                continue
            known = True
            if item in MODULES:
                found |= _of_module(item)
            elif item in self.outline.by_name:
                found |= self.effect(item) | Effect(tracks=True)
            elif self.is_class(item):
                found |= self.effect("forward", frozenset({item})) | Effect(tracks=True)
            elif item in self._called_like_functions:
                found |= self.effect("__call__")
            elif item in OPERATORS_OF_TORCH:
                found |= Effect(ALL, keeps_result=True) if item in SAVING else found
            else:
                found |= Effect(tracks=True)
        return found if known else Effect(tracks=True)

    def unaliased(self, name: str) -> str:
        return self.outline.aliases.get(name, name)

    def is_imported_by_module(self, name: str) -> bool:
        return name in self.outline.module_imports

    def is_imported(self, name: str) -> bool:
        return name in self.outline.imports

    def is_kept(self, name: str) -> bool:
        return name in self.makers.kept

    def may_keep_tensor(self, attribute: str) -> bool:
        return self.makers.may_keep_tensor(attribute)

    def is_attribute(self, name: str) -> bool:
        return self.makers.is_attribute(name)

    @cached_property
    def _called_like_functions(self) -> frozenset[str]:
        """The classes whose objects can be called without being modules."""
        return frozenset(method.owner for method in self.outline.by_name.get("__call__", ()))


def _of_module(name: str) -> Effect:
    """What calling a module of PyTorch does."""
    saves = MODULES[name]
    return Effect(
        saves=FIRST if "input" in saves else NONE,
        keeps_result="result" in saves,
        tracks=name not in MODULES_WITHOUT_PARAMETERS,
    )
