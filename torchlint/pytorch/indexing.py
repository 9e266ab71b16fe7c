"""Operands and modules that take indices: PyTorch accepts only integers or truth values there, without gradients."""

INDICES: dict[str, int] = {
    "embedding": 0,
    "gather": 2,
    "index_add": 2,
    "index_copy": 2,
    "index_fill": 2,
    "index_reduce": 2,
    "index_select": 2,
    "one_hot": 0,
    "scatter": 2,
    "scatter_add": 2,
    "scatter_reduce": 2,
    "take": 1,
    "take_along_dim": 1,
}
"""The operand that contains indices, by its position."""
MODULES = frozenset({"Embedding", "EmbeddingBag"})
"""Layers whose input contains indices."""
