"""Trees that were parsed for an index are taken over once, and not kept without end."""

from __future__ import annotations

from torchlint import SourceFile
from torchlint.syntax.reading import read
from torchlint.syntax.spare_trees import MAX_BYTES, SpareTrees


def test_a_tree_is_taken_over_once_and_by_its_path() -> None:
    spare, tree = SpareTrees(), read(SourceFile("a.py", b"x = 1\n"))
    spare.put(tree)
    assert spare.take("b.py", b"x = 1\n") is None
    assert spare.take("a.py", b"x = 2\n") is None
    assert spare.take("a.py", b"x = 1\n") is tree
    assert spare.take("a.py", b"x = 1\n") is None


def test_the_oldest_trees_go_first() -> None:
    spare, texts = SpareTrees(), [b"x = 1 #%d %s\n" % (number, b"-" * (MAX_BYTES // 2)) for number in range(3)]
    for text in texts:
        spare.put(read(SourceFile("a.py", text)))
    assert [spare.take("a.py", text) is not None for text in texts] == [False, False, True]


def test_a_tree_that_is_too_large_is_not_kept() -> None:
    spare, text = SpareTrees(), b"x = 1 #%s\n" % (b"-" * MAX_BYTES)
    spare.put(read(SourceFile("a.py", text)))
    assert spare.take("a.py", text) is None
