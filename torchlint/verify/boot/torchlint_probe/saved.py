"""The memory of autograd graphs: the tensors that their nodes have saved for a backward."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from torchlint_probe.graphs import nodes

_NODES = 400
_names: dict[type, list[str]] = {}


def saved_bytes(tensors: list[torch.Tensor]) -> int:
    """The bytes of these tensors and of what their graphs have saved and not freed, without parameters."""
    storages: dict[int, int] = {}
    for tensor in tensors:
        _add(tensor, storages)
    for node in nodes(tensors, _NODES):
        for tensor in saved(node):
            _add(tensor, storages)
    return sum(storages.values())


def _add(tensor: torch.Tensor, storages: dict[int, int]) -> None:
    if tensor.is_leaf and tensor.requires_grad:
        return
    try:
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes()
    except (RuntimeError, NotImplementedError):  # sparse, or of another kind without memory of its own
        return


def saved(node: Any) -> Iterator[torch.Tensor]:
    """The tensors that a node has saved and that are not freed."""
    return (tensor for _, tensor in saved_by_name(node))


def saved_by_name(node: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """The same, each with the name under which the node has it."""
    kind = type(node)
    if kind not in _names:
        _names[kind] = [name for name in dir(kind) if name.startswith("_saved_") or name == "saved_tensors"]
    for name in _names[kind]:
        value = _value(node, name)
        if isinstance(value, torch.Tensor):
            yield name, value
        elif isinstance(value, (list, tuple)):
            yield from ((name, item) for item in value if isinstance(item, torch.Tensor))


def _value(node: Any, name: str) -> Any:
    try:
        return getattr(node, name)
    except RuntimeError:  # freed, or changed in place
        return None
