"""Trees of modules parsed only for their index: the import follower reuses them, and parses less."""

from __future__ import annotations

from collections import OrderedDict

from torchlint.files.source import SourceFile
from torchlint.syntax.python_tree import PythonTree

MAX_BYTES = 800_000
"""Maximum size of texts whose trees are kept."""
UNNAMED = "module.py"
"""The path of a text that was parsed before it was known whether its file is linted."""


class SpareTrees:
    """The latest trees, by the path and text of their modules."""

    def __init__(self) -> None:
        self._trees: OrderedDict[tuple[str, bytes], PythonTree] = OrderedDict()
        self._bytes = 0

    def put(self, tree: PythonTree) -> None:
        """Keep a tree that its owner no longer needs."""
        self.take(tree.source.path, tree.source.data)
        self._trees[tree.source.path, tree.source.data] = tree
        self._bytes += len(tree.source.data)
        while self._bytes > MAX_BYTES:
            (_, data), dropped = self._trees.popitem(last=False)
            self._bytes -= len(data)
            dropped.release()

    def take(self, path: str, data: bytes) -> PythonTree | None:
        """The tree of a module, which then belongs to the caller; None if there is none."""
        found = self._trees.pop((path, data), None)
        self._bytes -= len(data) if found is not None else 0
        return found


spare = SpareTrees()


def own_tree(source: SourceFile) -> PythonTree | None:
    """The tree of a file that was just parsed to decide whether to follow its imports; None if it was not."""
    tree = spare.take(UNNAMED, source.data)
    if tree is None or tree.source.text != source.text:
        return None
    tree.source = source
    return tree
