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
  2  wrong usage or configuration, or a file could not be read;
     torchlint still traces the others
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
    help="text: for people. json: for programs. Lines and columns in JSON start at 0.",
)
@click.option("--all", "everything", is_flag=True, help="Also show events that no rule depends on here.")
@color_option
@click.pass_context
def trace(ctx: click.Context, files: tuple[Path, ...], output_format: str, everything: bool, color: str) -> None:
    """Show what torchlint understands in a file, and why it reports a finding or does not.

    FILE is a .py file or a notebook. `-` reads standard input. For each function, the output first lists the optimizers
    and their parameters. Then it lists the events in the order in which they run. At the end it lists the values that
    torchlint does not know. If a function calls another one, the events of the called function are indented below the
    call.

    \b
    Each line shows the place, the event, the code, and the meaning. The events:
      forward    a module runs, or a value that is called like a module
      backward   gradients are computed `for` or `perhaps for` these optimizers
      clear      the gradients of these optimizers are cleared
      step       an optimizer updates its parameters
      call       torchlint does not know the function: it may do any of these
      keep       a value is stored, with its graph or without
      change     a tensor is changed in place
      gradients  gradients are read or changed
      yield      a generator returns a value to the loop that uses it
      make       an optimizer, a module or a leaf tensor is created
      follow     a call of a function that torchlint knows
      repeat     code that runs several times inside one expression or step
      either     one of the two parts below runs
      one of     one of the parts below runs
      perhaps    the part below may run
      autograd   a call of `torch.autograd.grad`
      clip       gradients are clipped
      cache      the CUDA cache is emptied
      memory     memory is measured
      anomaly    anomaly detection is turned on or off

    A `relation` is one kind of question about the whole program, for example which gradients a step uses. At the end
    you see which imported files torchlint has read, and why it has not read others.

    \b
    If you expect a finding and get none, look for:
      a call that `may clear the gradients` between two steps
      a call into a file that torchlint has not read
      a loss that has `no graph`
      an optimizer whose parameters are unknown
      a branch that leaves the iteration before the step
      a step that is `not recognized as the step of an optimizer`
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
