"""`torchlint trace`: show the model of files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from torchlint.cli.check import STDIN, standard_input
from torchlint.cli.errors import CLEAN, USAGE_ERROR, complain, errors_of_the_user
from torchlint.cli.options import HELP, PathType, color_option, is_coloured, write

if TYPE_CHECKING:
    from torchlint.engine.registry import Selection
    from torchlint.files.source import SourceFile
    from torchlint.trace import FileTrace

_EXIT_CODES = """\b
Exit codes:
  0  every file was traced
  2  wrong usage or configuration, or an unreadable file
     (the others are traced)
"""


@click.command(
    context_settings=HELP, epilog=_EXIT_CODES, short_help="Show why torchlint reports a finding, or does not."
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=PathType(allow_dash=True))
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="text: for people. json: everything, for programs, with lines and columns from 0.",
)
@click.option("--all", "everything", is_flag=True, help="Also show operators, calls and reads that affect no answer.")
@color_option
@click.pass_context
def trace(ctx: click.Context, files: tuple[Path, ...], output_format: str, everything: bool, color: str) -> None:
    """Show what torchlint understands in a file, and why it reports a finding or does not.

    FILE is a .py file or a notebook; `-` reads standard input. torchlint follows calls to functions in the same file
    and in other modules of the repository, with the caller's values. The events of a called function are indented
    below the call. The last lines name the modules that torchlint followed, and say why it did not follow others.

    \b
    A line shows the place, the event, the source, and the meaning:
      forward    a module, or a value used like one, runs
      backward   gradients are computed `for` or `perhaps for` these optimizers
      clear      gradients of these optimizers are cleared
      step       an optimizer updates its parameters
      call       an unknown function: it may clear gradients or run `backward`
      keep       a value outlives its statement, with its graph or without
      change     a tensor is changed in place
      gradients  gradients are read or changed
      yield      a generator hands control to its consumer
      make       an optimizer, a module or a leaf is created
      follow     a function of this file is called; its events are below
      repeat     a comprehension, or a closure that its optimizer calls again
      either, one of, perhaps   parts of an expression; at most one of them runs
      autograd   `torch.autograd.grad`
      clip, cache, memory, anomaly   a clip, an emptied cache, ...

    For each function, the optimizers and their parameters come first, then the events, then the unknown values that
    affect them. Relations answer questions about the whole program, for example which gradients a step uses. Their
    answers come last.

    \b
    Common reasons for no finding:
      a call `may clear the gradients` between two steps
      a call does part of the step in code that torchlint does not follow
      a loss has `no graph`, or perhaps none
      the parameters of an optimizer are unknown
      a branch leaves the iteration before the step
      a step is `not taken for the step of an optimizer`
    """
    from torchlint.colours import painter
    from torchlint.trace import text

    colour = is_coloured(color)
    problems: list[str] = []
    with errors_of_the_user():
        traces = list(_traces(files, problems))
    if output_format == "json":
        rendered = "[\n" + ",\n".join(found.json() for found, _ in traces) + "\n]\n"
    else:
        paint = painter(colour)
        rendered = "\n".join(text.render(found, paint, everything=everything, off=off) for found, off in traces)
    write(rendered, None, colour)
    for problem in problems:
        complain(problem)
    ctx.exit(USAGE_ERROR if problems else CLEAN)


def _traces(files: Iterable[Path], problems: list[str]) -> Iterator[tuple[FileTrace, list[str]]]:
    """The trace of each readable file, with the rules that its configuration disables."""
    from torchlint.engine import registry
    from torchlint.project.config import Configurations

    configurations = Configurations()
    usual = registry.select().rules
    for file in files:
        source = _source(file, problems)
        selection = configurations.of_folder(file.parent).selection(file)
        rules = selection.rules
        found = _traced(source, selection, problems) if source else None
        if found is not None:
            yield found, [rule.rule_name() for rule in usual if rule not in rules]


def _source(file: Path, problems: list[str]) -> SourceFile | None:
    from torchlint.files.source import SourceError, SourceFile, Unread
    from torchlint.outputs.escaping import printable

    if file == Path("-"):
        return SourceFile(str(STDIN), standard_input())
    try:
        if not file.is_dir():
            return SourceFile.read(file)
        reason = "is a folder: name files"
    except SourceError as error:
        reason = error.message
    except OSError as error:
        reason = Unread.because_of(error).reason
    problems.append(f"{printable(str(file))}: {reason}")
    return None


def _traced(source: SourceFile, selection: Selection, problems: list[str]) -> FileTrace | None:
    """The trace of a file, or of the valid cells of a notebook."""
    from torchlint.engine.diagnostics import problem_finding
    from torchlint.engine.examination import without_broken_cells
    from torchlint.files.source import SourceError, SyntaxProblem
    from torchlint.outputs.places import shown_place
    from torchlint.trace import trace

    rest: SourceFile | None = None
    try:
        source.text  # noqa: B018 - raises when the bytes are no text
        try:
            return trace(source, selection.rules, selection.following)
        except (SyntaxProblem, SourceError) as problem:
            findings, rest = without_broken_cells(source, problem)
    except SourceError as problem:
        findings = [problem_finding(source, problem)]
    problems += [f"{shown_place(source, finding.span.start)}: {finding.message}" for finding in findings]
    return _traced(rest, selection, problems) if rest is not None else None
