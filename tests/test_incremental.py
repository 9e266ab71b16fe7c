"""A file that is edited is parsed as if it were new, and most of its nodes are kept."""

from __future__ import annotations

import random
from pathlib import Path

import libcst as cst
import pytest

from tests.thinning import thinned
from torchlint import SourceFile, lint, select
from torchlint.engine.document_cache import DocumentCache
from torchlint.engine.examination import examine
from torchlint.syntax.incremental import Pieces
from torchlint.syntax.tree import walk

PATHS = sorted((Path(__file__).parent.parent / "fixtures").glob("*/*.py"))
FIXTURES = [path for path in PATHS if not path.name.endswith(".fixed.py")][::3]
"""Fixed ones hold nothing that is not in the others. How a file is cut into pieces does not depend on the rule."""
LINES = ("", "x = 1", "else:", "    pass", "# a comment", "    # another", "'''", "(", "\\", "x = 1; y = 2; \\", "\f")
CODE = "import torch\n\n\ndef f(x):\n    return x\n\n\n# a note\n@torch.no_grad()\ndef g(x):\n    return x\n\n\ny = 2\n"


def kinds(module: cst.Module) -> list[type[cst.CSTNode]]:
    return [type(node) for node in walk(module)]


def assert_same(pieces: Pieces, text: str) -> None:
    """The pieces give what LibCST gives, or fail as it does."""
    try:
        expected = cst.parse_module(text)
    except cst.ParserSyntaxError:
        with pytest.raises(cst.ParserSyntaxError):
            pieces.module(text)
        return
    found = pieces.module(text)
    assert found.code == expected.code
    assert found.has_trailing_newline == expected.has_trailing_newline
    assert kinds(found) == kinds(expected)


def edited(text: str, choice: random.Random) -> str:
    lines = text.split("\n")
    start = choice.randrange(len(lines))
    lines[start : start + choice.choice((0, 0, 1, 1, 3))] = choice.choices(LINES, k=choice.randrange(3))
    return "\n".join(lines)


@pytest.mark.parametrize("path", thinned(FIXTURES, every=12), ids=lambda path: "/".join(path.parts[-2:]))
def test_edits_of_fixtures(path: Path) -> None:
    """Each form of a file has the findings that it would have alone."""
    choice = random.Random(path.name)
    cached, selection = DocumentCache(), select(["all"])
    text = path.read_text("utf-8")
    for _ in range(3):
        source = SourceFile.of_text("a.py", text)
        assert examine(source, selection, cached).findings == lint(source, selection)
        assert_same(cached.pieces, text)
        text = edited(text, choice)


@pytest.mark.parametrize("seed", range(20))
def test_many_edits(seed: int) -> None:
    choice = random.Random(seed)
    pieces, text = Pieces(), CODE
    for _ in range(30):
        assert_same(pieces, text)
        text = edited(text, choice)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x = 1",
        "\n\n# only words\n",
        "x = 1\n\n# the end",
        "if x:\n\ty = 1\nif x:\n  y = 1\n",
        "x = 1\r\ny = 2\nz = 3\n",
        "def f():\n    x\n    # inside\n\n# outside\ny\n\n# end",
        "x = 1; y = 2\nz = (\n\n1)\n",
        "'''a\nb'''\nx = \\\n  1\n",
        "match x:\n    case 1:\n        y\nz = 1\n",
    ],
)
def test_forms(text: str) -> None:
    pieces = Pieces()
    assert_same(pieces, text)
    assert_same(pieces, text)


def test_only_what_changed_is_new() -> None:
    pieces = Pieces()
    before = pieces.module(CODE).body
    after = pieces.module(CODE.replace("    return x\n\n\n# a", "    return -x\n\n\n# a")).body
    assert [one is two for one, two in zip(before, after, strict=True)] == [True, False, True, True]


def test_a_node_has_one_place() -> None:
    """Statements that are written alike are not the same."""
    pieces = Pieces()
    for text in ("x = 1\n" * 4, "x = 1\n" * 6):
        body = pieces.module(text).body
        assert len({id(statement) for statement in body}) == len(body)
