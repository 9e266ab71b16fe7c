"""The colors of the site: each text has a contrast of at least 4.5 to its background, in both themes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CSS = (Path(__file__).parents[1] / "docs" / "assets" / "site.css").read_text("utf-8")
THEMES = {
    name: dict(re.findall(r"--md-([\w-]+): (#[0-9a-f]{6});", block))
    for name, block in re.findall(r'^\[data-md-color-scheme="(\w+)"\] \{\n(.*?)^\}', CSS, re.M | re.S)
}
AT_LEAST = 4.5
ON_PAGE = ["typeset-a-color", "accent-fg-color", "default-fg-color--light"]
IN_CODE = ["code-fg-color", "typeset-a-color", *re.findall(r"--md-(code-hl-\w+-color):", CSS)]
ON_HEADER = ["primary-bg-color"]
IN_FOOTER = ["footer-fg-color", "footer-fg-color--light", "footer-fg-color--lighter"]
PAIRS = [
    *((text, "default-bg-color") for text in ON_PAGE),
    *((text, "code-bg-color") for text in dict.fromkeys(IN_CODE)),
    *((text, "primary-fg-color") for text in ON_HEADER),
    *((text, ground) for text in IN_FOOTER for ground in ("footer-bg-color", "footer-bg-color--dark")),
]
"""Texts with the backgrounds that they are on."""


def luminance(color: str) -> float:
    """The relative luminance of the Web Content Accessibility Guidelines 2.2."""
    channels = [int(color[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def test_the_formula() -> None:
    assert round(contrast("#000000", "#ffffff"), 1) == 21.0
    assert round(contrast("#ff6e42", "#ffffff"), 1) == 2.8, "the theme's deep orange"


def test_both_themes_set_the_same_colors() -> None:
    assert THEMES.keys() == {"default", "slate"}
    assert THEMES["default"].keys() == THEMES["slate"].keys()


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize(("text", "ground"), PAIRS)
def test_text_is_readable(theme: str, text: str, ground: str) -> None:
    colors = THEMES[theme]
    ratio = contrast(colors[text], colors[ground])
    assert ratio >= AT_LEAST, f"{text} {colors[text]} on {ground} {colors[ground]}: {ratio:.2f}"
