"""Reads the values of gradients, where identity and version do not decide."""

from __future__ import annotations

import ctypes

import torch

norm = torch.linalg.vector_norm
"""PyTorch's own, even if the program replaces `Tensor.norm` later."""
_ZEROS = b"\x00\x80"
"""The bytes of zeros of either sign."""


def dense(tensor: torch.Tensor) -> torch.Tensor:
    """The values themselves: the stored ones of a sparse tensor, this rank's part of a sharded one."""
    local = getattr(tensor, "_local_tensor", None)
    if local is not None:
        tensor = local
    return tensor._values() if tensor.is_sparse else tensor


def are_zero(gradients: list[torch.Tensor]) -> list[bool]:
    """For each gradient, whether it has only zeros."""
    if all(_begins_with_a_number(gradient) for gradient in gradients):
        return [False] * len(gradients)
    flags = [dense(gradient).detach().any() for gradient in gradients]
    if len({flag.device for flag in flags}) == 1 and flags[0].device.type != "cpu":
        return [not flag for flag in torch.stack(flags).tolist()]  # one wait for the device, not one each
    return [not bool(flag) for flag in flags]


def _begins_with_a_number(gradient: torch.Tensor) -> bool:
    """Whether the first element in memory is nonzero: faster than any operator, and often enough."""
    if type(gradient) is not torch.Tensor or gradient.layout is not torch.strided or not gradient.is_cpu:
        return False
    if not gradient.numel():
        return False
    return bool(ctypes.string_at(gradient.data_ptr(), gradient.element_size()).strip(_ZEROS))
