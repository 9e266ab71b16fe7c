"""Plain English: no private words and no riddles in the texts that people read, and short sentences in messages."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
CODE = (
    "rules",
    "torchlint/__init__.py",
    "torchlint/adoption",
    "torchlint/cli",
    "torchlint/colours.py",
    "torchlint/engine",
    "torchlint/files",
    "torchlint/finding.py",
    "torchlint/index",
    "torchlint/jupyter",
    "torchlint/lazy_import.py",
    "torchlint/lazy_pattern.py",
    "torchlint/model",
    "torchlint/outputs",
    "torchlint/project",
    "torchlint/repairs",
    "torchlint/results.py",
    "torchlint/rule.py",
    "torchlint/run",
    "torchlint/suggest.py",
    "torchlint/testing",
    "torchlint/trace",
    "torchlint/verify",
    "torchlint/wrapping.py",
)
"""Folders and files whose docstrings, messages and help texts are covered. Add a folder once its texts are plain."""
PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "docs/*.md",
    "docs/guides/*.md",
    "docs/decisions/*.md",
    "editors/vscode/README.md",
    ".github/ISSUE_TEMPLATE/*.yml",
)
NOT_YET: set[str] = set()
"""Pages whose texts still have to be rewritten."""
PRIVATE = {
    r"looked? into|looks into|looked at": "analyze",
    r"(is|are|was|were|be|been) (handed|told|let go)": "receives, knows, is released",
    r"told|handed": "knows, receives",
    r"wanted": "useful",
    r"let go|lets go": "release",
    r"take[ns]? in|taking in": "turn on, include",
    r"go(es)? over|went over": "iterate",
    r"(third|fourth|last|next|[a-z]+th) readings?|readings": "review",
    r"nobody|nothing is said": "unused, no code; torchlint does not report",
    r"as many as pay": "as many as help",
    r"has a say|see to": "affect",
    r"excuse[ds]?|excusing": "suppress",
    r"and their like|and its like": "and similar",
    r"what there is": "the existing findings",
}
"""Words that only the authors understand, each with words to use instead."""
RIDDLE = re.compile(r"(What|Those|Of)\b(?![^.\n]*\?)")
"""A start that postpones the subject; a question may begin with "What"."""
PART = re.compile(r"(?:\A|\n\n|\| |^ *[-*] |^ *\d+\. )(?=\w)", re.M)
"""The start of a paragraph, of an item in a list, or of a cell in a table."""
GRAMMAR = re.compile(r"\b(?:a|the|is|are|of)\b")
"""Words that a sentence has, and a list of names has not."""
MOST_WORDS = 20
"""In a sentence of a message."""


class Text(NamedTuple):
    """A text for readers, with its place."""

    place: str
    words: str
    is_docstring: bool


def _modules() -> Iterator[Path]:
    for name in CODE:
        path = ROOT / name
        yield from sorted(path.rglob("*.py")) if path.is_dir() else [path]


def _texts(path: Path) -> Iterator[Text]:
    """The docstrings of a module, and its strings of several words; a formatted value counts as one word."""
    tree = ast.parse(path.read_bytes())
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            words = "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
            words = node.value
        else:
            continue
        if id(node) in docstrings or len(words.split()) >= 3:
            yield Text(f"{path.relative_to(ROOT)}:{node.lineno}", words, id(node) in docstrings)


def _prose(page: str) -> str:
    """A page without code, addresses, generated parts and the heads of tables."""
    page = re.sub(r"<!-- (\w+) -->.*?<!-- /\1 -->", "", page, flags=re.S)
    page = re.sub(r"^ *```.*?^ *```$", "", page, flags=re.M | re.S)
    return re.sub(r"`[^`]*`|\]\([^)]*\)|<[^>]+>", " ", page)


TEXTS = [text for path in _modules() for text in _texts(path)]
READ = {
    name: _prose(path.read_text("utf-8"))
    for pattern in PAGES
    for path in sorted(ROOT.glob(pattern))
    if (name := path.relative_to(ROOT).as_posix()) not in NOT_YET
}


def private_words(text: str) -> list[str]:
    """The private words in a text, with the words to use instead."""
    plain = re.sub(r"`[^`]*`", " ", text)
    return [
        f"{found[0]}: {instead}"
        for word, instead in PRIVATE.items()
        for found in re.finditer(rf"\b(?:{word})\b", plain, re.I)
    ]


def sentences(text: str) -> list[str]:
    """The sentences of a message; a line break and a semicolon end one, too."""
    return re.split(r"[.!?;:](?:\s|$)|\n", re.sub(r"`[^`]*`", "X", text))


def test_the_words_are_found() -> None:
    assert private_words("Nobody uses it, and the loop is told.") == [
        "is told: receives, knows, is released",
        "told: knows, receives",
        "Nobody: unused, no code; torchlint does not report",
    ]
    assert private_words("`told` is a name") == []
    assert RIDDLE.match("What a loop keeps") and not RIDDLE.match("Whether a loop keeps")
    assert [len(sentence.split()) for sentence in sentences("one two; three `a b`\nfour.")] == [2, 2, 1, 0]


def test_no_text_in_the_code_is_a_riddle() -> None:
    assert TEXTS
    assert [text.place for text in TEXTS if RIDDLE.match(text.words.strip())] == []


def test_no_text_in_the_code_has_private_words() -> None:
    found = {text.place: words for text in TEXTS if (words := private_words(text.words))}
    assert found == {}


def test_messages_have_short_sentences() -> None:
    long = {
        text.place: sentence
        for text in TEXTS
        if not text.is_docstring
        for sentence in sentences(text.words)
        if len(sentence.split()) > MOST_WORDS and GRAMMAR.search(sentence)
    }
    assert long == {}


@pytest.mark.parametrize("name", READ)
def test_a_page_has_no_private_words_and_no_riddles(name: str) -> None:
    assert private_words(READ[name]) == []
    parts = [READ[name][start.end() :] for start in PART.finditer(READ[name])]
    assert [part.partition("\n")[0] for part in parts if RIDDLE.match(part)] == []


def test_pages_to_be_rewritten_exist() -> None:
    assert [name for name in NOT_YET if not (ROOT / name).is_file()] == []
