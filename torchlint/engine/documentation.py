"""A rule's documentation: for the terminal, and as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from torchlint.colours import Paint, painter
from torchlint.engine import registry
from torchlint.finding import Meta, Severity
from torchlint.wrapping import wrapped

TOPICS: Mapping[str, str] = {
    "TL1": "The training step",
    "TL2": "Graphs and memory",
    "TL3": "Autograd and modules",
    "TL4": "Wasted time",
    "TL5": "Losses",
    "TL6": "Reproducible runs",
    "TL7": "Shapes and types",
    "TL8": "PyTorch versions",
    "TL0": "Files and comments",
}
"""Topics of the built-in rules by the hundred of their codes, in the order in which they are shown."""
_SEVERITY = re.compile(r"^## Severity\n((?:.+\n?)+)", re.MULTILINE)
"""The section of a rule that does not always report with the severity of its category: it names the other one."""
_FENCE = re.compile(r"\s*```")
_PLAIN = painter(False)
_INLINE = re.compile(r"`([^`\n]+)`")


def markdown(meta: Meta) -> str:
    """The documentation as a Markdown page that ends with a newline."""
    return f"# {meta.name} ({meta.code})\n\n{standing(meta)}\n\n{meta.documentation.strip()}\n"


def terminal(meta: Meta, paint: Paint = _PLAIN, width: int | None = None) -> str:
    """The documentation for a terminal of `width` columns, with colours and indentation instead of Markdown's marks."""
    lines = [f"{paint(meta.name, 'title')} ({meta.code})", paint(standing(meta), "dim"), ""]
    lines += _rendered(wrapped(meta.documentation.strip().splitlines(), width), paint)
    if link := registry.address(meta.name):
        lines += ["", paint(link, "dim")]
    return "\n".join(lines) + "\n"


def topic(meta: Meta) -> str:
    """The topic of a built-in rule, by the hundred of its code; raises `ValueError` if the hundred has no topic."""
    if title := TOPICS.get(meta.code[:3]):
        return title
    hundreds = ", ".join(f"{hundred}xx ({title})" for hundred, title in TOPICS.items())
    raise ValueError(f"{meta.name}: the code {meta.code} belongs to no topic; the topics are {hundreds}")


def listing(metas: Iterable[Meta], paint: Paint = _PLAIN, width: int | None = None) -> str:
    """One line per rule: code, name, category, default and defect. In a narrow terminal the defect has its own line."""
    metas = list(metas)
    longest = max((len(meta.name) for meta in metas), default=0)
    columns = [
        (f"{meta.code}  {paint(meta.name.ljust(longest), 'title')}  {meta.category.value:<12} {_state(meta):<8}", meta)
        for meta in metas
    ]
    fits = width is None or all(longest + len(meta.summary) + 32 <= width for meta in metas)
    gap = " " if fits else "\n       "
    return "".join(f"{line if fits else line.rstrip()}{gap}{meta.summary}\n" for line, meta in columns)


def _state(meta: Meta) -> str:
    if meta.preview:
        return "preview"
    return "on" if meta.category.on_by_default else "off"


def standing(meta: Meta) -> str:
    """Category, severity and whether the rule is on, in words."""
    if meta.preview:
        state = "in preview: on with `--preview`, or when selected by name"
    else:
        state = "on by default" if meta.category.on_by_default else "off by default"
    return f"category: {meta.category.value}; severity: {' or '.join(_severities(meta))}; {state}"


def _severities(meta: Meta) -> Iterator[str]:
    """The severity of a rule's category, and the others that its documentation names."""
    own = meta.category.severity
    yield own.value
    section = _SEVERITY.search(meta.documentation)
    words = re.findall(r"\w+", section[1]) if section is not None else []
    yield from (other.value for other in Severity if other is not own and other.value in words)


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
