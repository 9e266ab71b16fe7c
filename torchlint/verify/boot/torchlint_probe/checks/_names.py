"""Names of parameters in the models that ran, and the places where optimizers received them."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

import torch

_SHOWN = 4


class Models:
    """The outermost modules that were called."""

    def __init__(self) -> None:
        self._all: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()

    def add(self, module: torch.nn.Module) -> None:
        self._all.add(module)

    def __iter__(self) -> Any:
        return iter(list(self._all))

    def named(self, parameters: Iterable[torch.Tensor]) -> str:
        """The number of parameters, and the names of some: ``5 parameters: `head.weight`, `head.bias` and 3 more``."""
        wanted = {id(parameter) for parameter in parameters}
        names = {id(leaf): name for model in self for name, leaf in model.named_parameters() if id(leaf) in wanted}
        shown = ", ".join(f"`{name}`" for name in list(names.values())[:_SHOWN])
        more = f" and {len(wanted) - _SHOWN:,} more" if shown and len(wanted) > _SHOWN else ""
        count = f"{len(wanted):,} parameter{'' if len(wanted) == 1 else 's'}"
        return f"{count}: {shown}{more}" if shown else count

    def names(self, parameters: list[torch.Tensor]) -> list[str]:
        """The name of each of these; its number if no model has it."""
        names = {id(leaf): name for model in self for name, leaf in model.named_parameters()}
        return [names.get(id(leaf), str(number)) for number, leaf in enumerate(parameters)]

    def name(self, module: torch.nn.Module) -> str:
        """The path of a module in a model that ran, with its class: "`encoder.norm` (`LayerNorm`)"."""
        kind = type(module).__name__
        names = (name for model in self for name, part in model.named_modules() if part is module)
        name = next(names, "")
        return f"`{name}` (`{kind}`)" if name else f"`{kind}`"


def leaves_of(optimizer: Any) -> list[torch.Tensor]:
    """The parameters of all groups."""
    return [leaf for group in optimizer.param_groups for leaf in group["params"]]
