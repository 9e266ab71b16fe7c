"""The pages of `docs/relations` state what the relations answer about their programs.

A comment `#: text` states the answers about its line, or about the next line if it stands alone; several answers are
separated by `; ` in alphabetical order. A relation answers nothing about a line without such a comment.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from torchlint import SourceFile
from torchlint.engine import registry
from torchlint.model import Model, relations
from torchlint.trace import trace

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "docs" / "relations"
BLOCK = re.compile(r"^```python\n((?:.*\n)*?)```$", re.M)
MARK = "#: "


class Example(NamedTuple):
    """A program of the page of a relation."""

    relation: str
    line: int
    """The line of the page where the program begins."""
    code: str

    def __str__(self) -> str:
        return f"{self.relation}:{self.line}"


def examples() -> Iterator[Example]:
    for page in sorted(PAGES.glob("*.md")):
        text = page.read_text("utf-8")
        for block in BLOCK.finditer(text):
            yield Example(page.stem, text.count("\n", 0, block.start(1)) + 1, block[1])


def stated(code: str) -> dict[int, str]:
    """The statements in the comments of a program, by line."""
    found = {}
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.type == tokenize.COMMENT and token.string.startswith(MARK):
            stands_alone = not token.line[: token.start[1]].strip()
            found[token.start[0] + stands_alone] = token.string.removeprefix(MARK)
    return found


def answered(example: Example) -> dict[int, str]:
    """The answers of the relation, by line."""
    found = defaultdict(list)
    for answer in trace(SourceFile("program.py", example.code.encode()), registry.rules()).answers:
        if answer.relation == example.relation:
            found[answer.span.start.line].append(answer.text)
    return {line: "; ".join(texts) for line, texts in found.items()}


@pytest.mark.parametrize("example", list(examples()), ids=str)
def test_a_relation_answers_what_its_page_states(example: Example) -> None:
    assert answered(example) == stated(example.code)


def test_every_relation_has_a_page_and_a_property() -> None:
    folder = Path(relations.__file__).parent
    files = {path.stem for path in folder.iterdir() if not path.stem.startswith("_")} - {"answer"}
    assert set(relations.NAMES) == files == {page.stem for page in PAGES.glob("*.md")}
    assert all(hasattr(Model, name) for name in relations.NAMES)


def test_every_page_states_an_answer() -> None:
    assert {example.relation for example in examples() if stated(example.code)} == set(relations.NAMES)
