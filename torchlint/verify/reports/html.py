"""A self-contained page: for each finding the code, the verdict, the evidence and a plot. It loads nothing."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from html import escape
from importlib.metadata import version
from pathlib import PurePath

from torchlint.files.source import SourceError
from torchlint.outputs.page import DARK, breakable, page
from torchlint.verify.comparison import Comparison
from torchlint.verify.evidence import Evidence
from torchlint.verify.proof import Outcome
from torchlint.verify.reports.plots import Plot, comparisons, plot, svg
from torchlint.verify.session import Judged, Verification
from torchlint.verify.verdict import VERIFIABLE, Answer
from torchlint.verify.watch.catalogue import consequence

_CONTEXT = 3
"""Lines of code before and after the flagged one."""

_CSS = """
pre mark { display: block; }
nav li, h2, header, header code, p code { overflow-wrap: anywhere; }
nav li { break-inside: avoid; margin-bottom: .3rem; }
nav ol { column-width: 26rem; column-gap: 3rem; padding-left: 1.4rem; }
nav label { margin-right: 1rem; white-space: nowrap; }
.verdict { color: var(--colour); font-weight: 700; }
.confirmed { --colour: var(--red); } .refuted { --colour: var(--green); }
.inconclusive { --colour: var(--yellow); } .not-reached { --colour: var(--dim); }
dl { display: flex; flex-wrap: wrap; gap: .2rem 1.4rem; margin: .5rem 0; }
dt { color: var(--dim); } dl div { display: flex; gap: .4rem; } dd { margin: 0; font-variant-numeric: tabular-nums; }
figure { margin: 0; overflow-x: auto; } svg { height: auto; max-width: 100%; min-width: 34rem; }
body:has(#show-confirmed:not(:checked)) :is(article, li).confirmed,
body:has(#show-refuted:not(:checked)) :is(article, li).refuted,
body:has(#show-inconclusive:not(:checked)) :is(article, li).inconclusive,
body:has(#show-not-reached:not(:checked)) :is(article, li).not-reached { display: none; }
table { border-collapse: collapse; } td, th { padding: .1rem .8rem .1rem 0; text-align: left; }
"""
_DARK_PLOTS = """
@media (prefers-color-scheme: dark) {
  svg text { fill: var(--text); } svg [style*="#000000"] { stroke: var(--dim) !important; }
  svg [style*="#b3261e"] { stroke: var(--red) !important; } svg [style*="#2e7d32"] { stroke: var(--green) !important; }
  svg [style*="#1f6feb"] { stroke: var(--blue) !important; }
  svg use[style*="#b3261e"] { fill: var(--red) !important; } svg use[style*="#1f6feb"] { fill: var(--blue) !important; }
}
"""
"""Matplotlib writes colours into each element, for a light page."""


def render(verification: Verification) -> str:
    """The page."""
    body = "\n".join(
        [
            _head(verification),
            *_index(verification),
            _table(verification),
            *_articles(verification),
            *_comparison(verification.comparison),
            _foot(verification.title),
        ]
    )
    return page(verification.title, body, DARK + _CSS + _DARK_PLOTS)


def _head(verification: Verification) -> str:
    counts = ", ".join(
        f'<span class="{answer.value}"><span class="verdict">{verification.count(answer)} {answer.value}</span></span>'
        for answer in Answer
        if verification.count(answer)
    )
    notes = "".join(f"<p>{_text(note)}</p>" for note in verification.notes)
    return (
        f"<h1>{escape(verification.title)}</h1>\n<p><code>{escape(shlex.join(verification.command))}</code></p>\n"
        f"<p>{counts or 'No findings.'}</p>\n{notes}"
    )


def _by_optimizer(verification: Verification) -> list[str]:
    """The steps of each optimizer, if there are several."""
    made = verification.steps_made
    return [f"{name} {steps:,}" for name, steps in made] if len(made) > 1 else []


def _table(verification: Verification) -> str:
    rows = [
        ("Program", verification.ended.description if verification.ended else "not run"),
        ("Steps", ", ".join([f"{verification.steps:,}", *_by_optimizer(verification)])),
    ]
    for evidence in verification.evidence[:8]:
        process = evidence.process
        rank = f"rank {process.rank}: " if process.rank else ""
        rows.append(("Process", f"{rank}{process.device}, torch {process.torch}, Python {process.python}"))
    cells = "".join(f'<tr><td class="dim">{name}</td><td>{escape(value)}</td></tr>' for name, value in rows)
    return f"<table>{cells}</table>"


def _comparison(comparison: Comparison | None) -> Iterator[str]:
    """The program as it is next to the program with the fixes."""
    if comparison is None:
        return
    rows = "".join(
        f'<tr><td class="dim">{escape(item.label)}</td><td>{item.shown_before}</td><td>{item.shown_after}</td></tr>'
        for item in comparison.quantities
    )
    yield (
        f"<section>\n<h2>As it is, and with the fixes</h2>\n<p>Runs: {escape(', '.join(comparison.order))}; seed "
        f"{comparison.seed}. With the fixes: {escape(comparison.ended.description)}.</p>\n"
        f"<table><tr><th></th><th>as it is</th><th>with the fixes</th></tr>{rows}</table>"
    )
    for number, drawn in enumerate(comparisons(comparison)):
        yield _figure(drawn, f"comparison-{number}")
    yield "</section>"


def _index(verification: Verification) -> Iterator[str]:
    """The list of findings, a sentence each, and checkboxes that filter by verdict, without a script."""
    answers = [answer for answer in Answer if verification.count(answer)]
    if len(verification.judged) < 2:
        return
    switches = "".join(
        f'<label><input type="checkbox" id="show-{answer.value}" checked> {answer.value}</label>' for answer in answers
    )
    short = _short_paths({item.finding.path for item in verification.judged})
    links = "".join(
        f'<li class="{item.verdict.answer.value}"><span class="verdict">{item.verdict.answer.value}</span> '
        f'<a href="#finding-{number}">{escape(item.finding.name)}</a> '
        f'<span class="dim">{breakable(short[item.finding.path])}:{item.line}</span>: {_text(item.verdict.reason)}</li>'
        for number, item in enumerate(verification.ranked)
    )
    yield f"<nav>\n<p>{switches if len(answers) > 1 else ''}</p>\n<ol>{links}</ol>\n</nav>"


def _short_paths(paths: Iterable[str]) -> dict[str, str]:
    """By path, its name, with as many of its folders as no other path ends with."""
    paths = list(paths)
    short = {}
    for path in paths:
        parts = PurePath(path).parts
        ends = (PurePath(*parts[-count:]).as_posix() for count in range(1, len(parts)))
        alone = (end for end in ends if sum(PurePath(other).as_posix().endswith(f"/{end}") for other in paths) == 1)
        short[path] = next(alone, path)
    return short


def _articles(verification: Verification) -> Iterator[str]:
    busiest = max(verification.evidence, key=lambda evidence: evidence.steps, default=None)
    for number, judged in enumerate(verification.ranked):
        yield _article(judged, number, busiest)


def _article(judged: Judged, number: int, evidence: Evidence | None) -> str:
    finding, verdict = judged.finding, judged.verdict
    first = "" if verdict.first_step is None else f" First at step {verdict.first_step + 1:,}."
    device = f" On {verdict.device}." if verdict.device else ""
    return (
        f'<article class="{verdict.answer.value}" id="finding-{number}">\n'
        f'<h2><span class="verdict">{verdict.answer.value}</span> {escape(finding.code)} {escape(finding.name)} '
        f'<span class="place">{breakable(finding.path)}:{judged.line}</span></h2>\n'
        f"{_message(judged)}{_code(judged)}\n"
        f"<p><b>{_text(_sentence(verdict.reason))}</b>{_meaning(judged)}{first}{escape(device)}{_advice(verdict.advice)}</p>\n"
        f"{_beside(judged)}{_fix(judged)}{_numbers(judged)}\n{_plot(judged, number, evidence)}</article>"
    )


def _meaning(judged: Judged) -> str:
    """The consequence in training."""
    meaning = consequence(judged.finding.name) if judged.verdict.answer is Answer.CONFIRMED else ""
    return f" {_text(meaning)}" if meaning else ""


def _message(judged: Judged) -> str:
    """The message of a finding, unless the run's reason repeats it."""
    is_same = judged.finding.message == judged.verdict.reason
    return "" if is_same else f"<p>{_text(judged.finding.message)}</p>\n"


def _text(text: str) -> str:
    """Escaped text, with code between backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _advice(advice: str) -> str:
    return f" Next: {_text(advice)}." if advice else ""


def _beside(judged: Judged) -> str:
    """The linter's message about the same line."""
    return "" if judged.beside is None else f"<p>The linter reports: {_text(judged.beside.message)}.</p>\n"


def _fix(judged: Judged) -> str:
    if judged.proof is None:
        return ""
    outcome, fix = judged.proof.outcome, judged.finding.fix
    about = "" if fix is None else f" ({fix.safety.value}: {fix.message})"
    title = "No fix" if outcome is Outcome.NO_FIX else f"Fix {outcome.value}"
    return f"<p><b>{escape(title)}</b>{_text(about)}: {_text(judged.proof.reason)}.</p>\n"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


def _code(judged: Judged) -> str:
    try:
        lines = judged.source.lines
    except SourceError:
        return ""
    line = judged.finding.span.start.line
    first, last = max(1, line - _CONTEXT), min(len(lines), line + _CONTEXT)
    shown = []
    for number in range(first, last + 1):
        text = f"{number:>5}  {escape(lines[number - 1])}"
        shown.append(f"<mark>{text}</mark>" if number == line else f"{text}\n")
    return f"<pre>{''.join(shown)}</pre>" if shown else ""


def _numbers(judged: Judged) -> str:
    items = "".join(
        f"<div><dt>{escape(_label(name))}</dt><dd>{value:,.4g}</dd></div>"
        if isinstance(value, float)
        else f"<div><dt>{escape(_label(name))}</dt><dd>{value:,}</dd></div>"
        for name, value in judged.verdict.numbers.items()
    )
    return f"<dl>{items}</dl>" if items else ""


def _label(name: str) -> str:
    """The words for the name of a number."""
    return "runs of the line" if name == "visits" else name.replace("_", " ")


def _plot(judged: Judged, number: int, evidence: Evidence | None) -> str:
    """The plot for the finding, if its code ran."""
    silent = judged.verdict.answer is Answer.NOT_REACHED or judged.finding.name not in VERIFIABLE
    if evidence is None or silent:
        return ""
    return _figure(plot(judged.finding.name, evidence), f"plot-{number}")


def _figure(drawn: Plot, name: str) -> str:
    if drawn.is_empty:
        return ""
    return f"<figure><figcaption>{escape(drawn.title)}</figcaption>{svg(drawn, name)}</figure>\n"


def _foot(title: str) -> str:
    return (
        f'<p class="dim">torchlint {escape(version("torchlint"))}. The program ran for a few steps only; '
        f"<code>{escape(title)} --help</code> explains the verdicts.</p>"
    )
