"""The PyTorch classes from which classes derive, also through classes of the repository."""

from __future__ import annotations

from torchlint.model.definitions import ClassInfo

_MODULE = frozenset({"LightningModule", "PreTrainedModel"})
"""Classes of other packages that are modules, by their last name."""


def is_module_class(info: ClassInfo) -> bool:
    """Whether objects of a class are surely modules."""
    bases = (item for item in info.ancestors() if isinstance(item, str))
    return any(base.startswith("torch.nn.") or base.rpartition(".")[2] in _MODULE for base in bases)
