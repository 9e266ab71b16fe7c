"""Files with literal sizes that may not fit: sizes of layers in the order of the file, and sizes of tensors."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache

from torchlint.lazy_pattern import LazyPattern

LAYERS = frozenset(
    "Linear Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d BatchNorm1d BatchNorm2d BatchNorm3d "
    "LayerNorm GroupNorm Embedding LSTM GRU RNN Sequential".split()
)
"""Layers that require a certain size or pass one on."""
CREATORS = frozenset("randn rand zeros ones empty full eye randint".split())
"""Functions that create a tensor of a given size."""
CALLS = LAYERS | CREATORS
_NUMBER = rb"\d+(?:\s*[*+]\s*\d+)*"
_ONLY_NUMBER = LazyPattern(_NUMBER)
_SIZES = rb"\s*\(\s*(?:\w+\s*=\s*)?(%s|[\w.]+)\s*[,)](?:\s*(?:\w+\s*=\s*)?(%s)\s*[,)])?" % (_NUMBER, _NUMBER)
_LAYERS = {
    word: LazyPattern(b"(%s%s)%s" % (word, rest, _SIZES))
    for word, rest in (
        (b"Linear", b""), (b"Conv", rb"(?:Transpose)?[123]d"), (b"LSTM", b""), (b"GRU", b""), (b"RNN", b""),
        (b"BatchNorm", b"[123]d"), (b"LayerNorm", b""),
    )
}  # fmt: skip
"""Patterns for layers with their input and output sizes, by a word that the search looks for first."""
_VIEWS = {word: LazyPattern(rb"%s\s*\([^()\n]*?[, ]\s*(%s)\s*\)" % (word, _NUMBER)) for word in (b"view", b"reshape")}
_TENSORS = {
    word: LazyPattern(rb"%s\s*\([^()]{0,12}[(\[]?\s*(?=\d+\s*,\s*\d)[^()]{0,99}?(?:(?<![\w.])(?!1\b)\d|dtype)" % word)
    for word in (b"randn", b"rand", b"zeros", b"ones", b"empty", b"full", b"randint")
}
_MEETING = (b" @ ", b"matmul", b"cat(", b"stack(", b".mm(", b"bmm(")


@lru_cache(maxsize=1)
def may_not_fit(data: bytes) -> bool:
    """Whether literal sizes in a file may not match. False where each layer fits an earlier layer."""
    if b"torch" not in data:
        return False
    layers = sorted(_found(_LAYERS, data), key=re.Match.start)
    has_meeting = len(layers) > 1 or any(word in data for word in _MEETING)
    tensors = sum(1 for _ in _found(_TENSORS, data)) if has_meeting else 0
    if tensors > 1 or (tensors and len(layers) > 1):
        return True
    return len(layers) > 1 and not _all_fit(data, layers)


def writes_tensor(data: bytes) -> bool:
    """Whether a file creates a tensor of literal sizes."""
    return any(True for _ in _found(_TENSORS, data))


def _found(patterns: dict[bytes, LazyPattern[bytes]], data: bytes) -> Iterator[re.Match[bytes]]:
    return (found for word, pattern in patterns.items() if word in data for found in pattern.finditer(data))


def _all_fit(data: bytes, layers: list[re.Match[bytes]]) -> bool:
    """Whether each layer takes a size that an earlier layer in its class or function gives or takes."""
    taken, seen, end = set[int](), dict[int, bytes](), 0
    for layer in layers:
        if data.find(b"\nclass ", end, layer.start()) >= 0 or data.find(b"def __init__", end, layer.start()) >= 0:
            seen = {}
        end, kind, takes, gives = layer.end(), layer[1], _value(layer[2]), _value(layer[3] or b"")
        if takes is not None and seen and not _is_given(takes, seen):
            return False
        for size in (takes, gives):
            if size is not None:
                seen[size] = kind
        taken |= {takes} if takes is not None else set()
    views = {_value(found[1]) for found in _found(_VIEWS, data)} if taken else set()
    return views <= taken


def _is_given(size: int, seen: dict[int, bytes]) -> bool:
    """Whether a size is known, the sum of two known sizes, flattened channels, or both directions of a layer."""
    return any(
        one == size
        or size - one in seen
        or (kind.startswith(b"Conv") and one > 1 and size % one == 0)
        or (kind in _BOTH_WAYS and size == 2 * one)
        for one, kind in seen.items()
    )


_BOTH_WAYS = (b"LSTM", b"GRU", b"RNN")


def _value(text: bytes) -> int | None:
    """The number that a literal such as `16 * 5 * 5` means."""
    if not _ONLY_NUMBER.fullmatch(text):
        return None
    total = 0
    for term in text.split(b"+"):
        product = 1
        for factor in term.split(b"*"):
            product *= int(factor)
        total += product
    return total


def called(node: ast.AST) -> str:
    """The called function or the applied operator, for a message."""
    if isinstance(node, ast.Call):
        func = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
        is_own = isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) == "self"
        return f"`self.{func}`" if is_own else f"`{func}`"
    if isinstance(node, ast.BinOp):
        return f"`{_OPERATORS.get(type(node.op), 'this')}`"
    return f"`{ast.unparse(node)}`" if isinstance(node, (ast.Subscript, ast.Attribute)) else "this"


_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.MatMult: "@", ast.Pow: "**", ast.Mod: "%",
    ast.FloorDiv: "//",
}  # fmt: skip
