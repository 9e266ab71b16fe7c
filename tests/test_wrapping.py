"""Texts fit a terminal: paragraphs and list items are wrapped, and no help is wider than 80 columns."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from torchlint.cli import cli
from torchlint.engine import documentation, registry
from torchlint.wrapping import wrapped

TEXT = """\
A paragraph of two lines that
is wrapped as one.

- an item that is longer than
  the width

```python
a = long_line_of_code(that_stays)
```
1. a numbered item of some words"""


def test_paragraphs_and_items_are_wrapped() -> None:
    assert list(wrapped(TEXT.splitlines(), 20)) == [
        "A paragraph of two",
        "lines that is",
        "wrapped as one.",
        "",
        "- an item that is",
        "  longer than the",
        "  width",
        "",
        "```python",
        "a = long_line_of_code(that_stays)",
        "```",
        "1. a numbered item",
        "   of some words",
    ]


@pytest.mark.parametrize("width", [None, 100])
def test_a_text_that_fits_stays(width: int | None) -> None:
    assert list(wrapped(TEXT.splitlines(), width)) == TEXT.splitlines()


def test_wrapping_changes_no_word_of_a_rule() -> None:
    for meta in registry.metas():
        lines = meta.documentation.splitlines()
        assert " ".join(wrapped(lines, 60)).split() == " ".join(lines).split(), meta.name


def test_a_list_of_rules_fits_a_narrow_terminal() -> None:
    meta = registry.find("missing-zero-grad")[0]
    assert documentation.listing([meta], width=80) == (
        "TL101  missing-zero-grad  correctness  on\n"
        "       Gradients are never cleared between two steps of an optimizer.\n"
    )
    assert documentation.listing([meta], width=120).count("\n") == 1


@pytest.mark.parametrize("name", [None, *sorted(cli.commands)])
def test_a_help_fits_80_columns(name: str | None) -> None:
    arguments = [name, "--help"] if name else ["--help"]
    text = CliRunner().invoke(cli, arguments, terminal_width=80).output
    choices = "[text|concise|json"
    assert [line for line in text.splitlines() if len(line) > 80 and choices not in line] == []
    assert "..." not in text.partition("Commands:")[2]
