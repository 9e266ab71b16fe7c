"""Traces for people: each function with its optimizers and events, and the parts that were not analyzed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from torchlint.colours import Paint
from torchlint.model.relations import NAMES
from torchlint.outputs import counted
from torchlint.outputs.escaping import printable
from torchlint.trace.code import code
from torchlint.trace.columns import Line, columns, wrapped
from torchlint.trace.document import Answered, FileTrace
from torchlint.trace.function_text import FunctionText
from torchlint.trace.wording import Wording

_LISTED = 20
"""So many functions of which there is nothing to tell are named."""


def render(trace: FileTrace, paint: Paint, *, everything: bool = False, off: Sequence[str] = ()) -> str:
    """The trace of a file. With `everything` also operators, calls and reads that decide nothing.

    `off` names the rules that the file's configuration leaves out.
    """
    words = Wording(trace.values)
    told = [FunctionText(trace.source, function, words, everything=everything) for function in trace.functions]
    lines = [paint(printable(trace.source.path), "title"), *_about_rules(trace, off)]
    for function in told:
        lines += [] if function.is_empty else ["", *function.lines(paint)]
    lines += _about_relations(trace, paint)
    lines += ["", *_about_the_rest(trace, told)]
    return "".join(f"{line}\n" for line in lines).rstrip("\n") + "\n"


def _about_rules(trace: FileTrace, off: Sequence[str]) -> Iterator[str]:
    if trace.rules:
        yield from wrapped(f"Rules that analyze it: {', '.join(trace.rules)}.")
    else:
        yield from wrapped("No rule analyzes it, because none could find anything here.")
    if trace.is_test:
        yield "It is a test, where some rules report less."
    if off:
        yield from wrapped(f"Rules that are off here: {', '.join(off)}.")


def _about_relations(trace: FileTrace, paint: Paint) -> Iterator[str]:
    """The answers of each relation, by place."""
    for relation, answers in groupby(trace.answers, lambda answer: answer.relation):
        yield from ("", paint(f"relation `{relation}`", "heading"))
        yield from columns([_answer(trace, answer) for answer in answers], paint)
    silent = sorted(set(NAMES).difference(answer.relation for answer in trace.answers))
    if trace.answers and silent:
        yield from ("", *wrapped(f"No answers here from the relations {', '.join(silent)}."))


def _answer(trace: FileTrace, answer: Answered) -> Line:
    place, shown = trace.source.place(answer.span.start), code(trace.source, answer.span)
    return Line(place, 0, "", shown, printable(answer.text))


def _about_the_rest(trace: FileTrace, told: Sequence[FunctionText]) -> Iterator[str]:
    functions = zip(trace.functions, told, strict=True)
    yield from _named("No events in", [function.name for function, text in functions if text.is_empty])
    yield from _named("Not interpreted, because no rule could find anything there", [name for name, _ in trace.skipped])
    if hidden := sum(text.hidden for text in told):
        yield from wrapped(f"Not shown, because no rule depends on them: {counted(hidden, 'event')}. --all shows them.")
    if trace.cut_short:
        yield from wrapped("torchlint reached its limits here: some calls are unknown.")
    yield from _about_modules(trace)


def _about_modules(trace: FileTrace) -> Iterator[str]:
    """Which imports of the file were followed, and which were not."""
    modules = {printable(way): why for way, why in (trace.modules or {}).items()}
    yield from _named("Followed into", [way for way, why in modules.items() if not why])
    for reason in dict.fromkeys(filter(None, modules.values())):
        yield from _named(f"Not followed ({reason})", [way for way, why in modules.items() if why == reason])


def _named(what: str, names: Sequence[str]) -> list[str]:
    names = [name for name in names if name]
    more = f" and {len(names) - _LISTED:,} more" if len(names) > _LISTED else ""
    return wrapped(f"{what}: {', '.join(names[:_LISTED])}{more}.") if names else []
