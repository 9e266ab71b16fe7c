"""The semantic model of one module."""

from __future__ import annotations

from torchlint.syntax import Tree


class Model:
    """What a module means to PyTorch, worked out lazily."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
