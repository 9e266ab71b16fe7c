"""The PyTorch classes from which classes derive, also through classes of the repository."""

from __future__ import annotations

from torchlint.model.definitions import ClassInfo

_MODULE = frozenset({"LightningModule", "PreTrainedModel"})
"""Classes of other packages that are modules, by their last name."""
_KNOWN_BASES = ("torch.", "abc.", "builtins.", "typing.")


def is_module_class(info: ClassInfo) -> bool:
    """Whether objects of a class are surely modules."""
    bases = (item for item in info.ancestors() if isinstance(item, str))
    return any(base.startswith("torch.nn.") or base.rpartition(".")[2] in _MODULE for base in bases)


def is_lightning(info: ClassInfo) -> bool:
    """Whether a class derives from `LightningModule`, and from no other class that torchlint does not know."""
    unknown = [item for item in info.ancestors() if isinstance(item, str) and not item.startswith(_KNOWN_BASES)]
    return bool(unknown) and all(item.rpartition(".")[2] == "LightningModule" for item in unknown)
