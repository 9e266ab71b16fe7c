"""A rule's documentation: for the terminal, as Markdown, and the address where it can be read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from torchlint.colours import Paint, painter
from torchlint.finding import Meta

REPOSITORY = "https://github.com/torchlint/torchlint"
_OWN_CODE = re.compile(r"TL\d{3}")
_ENGINE_CODE = re.compile(r"TL00\d")
_SEVERITY = re.compile(r"^## Severity$", re.MULTILINE)
"""The section of a rule that does not always report with the severity of its category."""
_FENCE = re.compile(r"\s*```")
_PLAIN = painter(False)
_INLINE = re.compile(r"`([^`\n]+)`")


def address(name: str, code: str) -> str:
    """Where the rule is documented; empty for a plugin's rule, whose home is not known."""
    if not _OWN_CODE.fullmatch(code):
        return ""
    if _ENGINE_CODE.fullmatch(code):
        return f"{REPOSITORY}#readme"
    return f"{REPOSITORY}/blob/main/rules/{name.replace('-', '_')}.py"


def markdown(meta: Meta) -> str:
    """The documentation as a Markdown page that ends with a newline."""
    return f"# {meta.name} ({meta.code})\n\n{_standing(meta)}\n\n{meta.documentation.strip()}\n"


def terminal(meta: Meta, paint: Paint = _PLAIN) -> str:
    """The documentation as it is read in a terminal: Markdown's marks give way to colour and indentation."""
    lines = [f"{paint(meta.name, 'title')} ({meta.code})", paint(_standing(meta), "dim"), ""]
    lines += _rendered(meta.documentation.strip().splitlines(), paint)
    if link := address(meta.name, meta.code):
        lines += ["", paint(link, "dim")]
    return "\n".join(lines) + "\n"


def listing(metas: Iterable[Meta], paint: Paint = _PLAIN) -> str:
    """One line a rule: code, name, category, and what it finds."""
    metas = list(metas)
    width = max((len(meta.name) for meta in metas), default=0)
    return "".join(
        f"{meta.code}  {paint(meta.name.ljust(width), 'title')}  {meta.category.value:<12} {meta.summary}\n"
        for meta in metas
    )


def _standing(meta: Meta) -> str:
    """Category, severity and whether the rule is on, in words."""
    if meta.preview:
        state = "in preview: on with `--preview`, or when selected by name"
    else:
        state = "on by default" if meta.category.on_by_default else "off by default"
    less = " or less" if _SEVERITY.search(meta.documentation) else ""
    return f"{meta.category.value}, {meta.category.severity.value}{less}; {state}"


def _rendered(lines: Iterable[str], paint: Paint) -> Iterator[str]:
    in_code = False
    for line in lines:
        if _FENCE.match(line):
            in_code = not in_code
        elif in_code:
            yield paint(f"    {line}", "code") if line else ""
        elif line.startswith("#"):
            yield paint(line.lstrip("# "), "heading")
        else:
            yield _INLINE.sub(lambda match: paint(match[0], "code"), line)
