"""`%load_ext torchlint`: the magics `%%torchlint`, which lints a cell, and `%torchlint`, which lints the notebook."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from torchlint.engine.examination import examine
from torchlint.files.source import SourceFile
from torchlint.finding import Finding
from torchlint.jupyter.session import NAME, Session
from torchlint.outputs import Style, counted, render
from torchlint.project.config import Configurations
from torchlint.project.discovery import Discovery
from torchlint.project.settings import Overrides
from torchlint.results import LintedFile
from torchlint.run.runner import outcome_of, run

_MAGIC = "torchlint"
_LOADED = "_torchlint_session"
_DESCRIPTION = """Find bugs in PyTorch training code. The code does not run.

%%torchlint lints its cell, together with the cells that have run in this session. %torchlint lints PATH. Without a
PATH it lints the saved notebook, or else the cells that have run.
"""


def load_ipython_extension(shell: Any) -> None:
    """Called by `%load_ext torchlint`."""
    session = Session(shell)
    shell.events.register("pre_run_cell", session.before_cell)
    shell.events.register("post_run_cell", session.after_cell)
    vars(shell)[_LOADED] = session
    magic = partial(_magic, shell, session)
    magic.__doc__ = _parser().format_help()
    shell.register_magic_function(magic, "line_cell", _MAGIC)


def unload_ipython_extension(shell: Any) -> None:
    """Called by `%unload_ext torchlint`."""
    session = vars(shell).pop(_LOADED)
    shell.events.unregister("pre_run_cell", session.before_cell)
    shell.events.unregister("post_run_cell", session.after_cell)
    for magics in shell.magics_manager.magics.values():
        magics.pop(_MAGIC, None)


def _magic(shell: Any, session: Session, line: str, cell: str | None = None) -> None:
    options = _options(line, is_cell=cell is not None)
    style = Style(colour=str(shell.colors).lower() != "nocolor", summary=False)
    with _errors_of_the_user():
        found = _lint_notebook(session, options) if cell is None else _lint_cell(session, cell, options)
        sys.stdout.write(render("text", outcome_of([file for file in found if file.findings], 1, []), style))
    number = sum(len(file.findings) for file in found)
    print(f"{counted(number, 'finding')}." if number else "No findings.")
    if cell is not None:
        _run_if_asked(shell, session, cell, options.run and not number)


def _run_if_asked(shell: Any, session: Session, cell: str, wanted: bool) -> None:
    if wanted:
        shell.run_cell(cell)
    else:
        session.leave_out_current()


def _lint_cell(session: Session, cell: str, options: Any) -> list[LintedFile]:
    """Findings of a cell, after the cells before it ran: those inside it, or related to a place in it."""
    source, number = session.program_with(cell)

    def is_own(finding: Finding) -> bool:
        spans = (finding.span, *(related.span for related in finding.related))
        return any(source.place(span.start).cell == number for span in spans)

    linted = _lint_session(source, options)
    return [replace(linted, findings=tuple(filter(is_own, linted.findings)))]


def _lint_notebook(session: Session, options: Any) -> list[LintedFile]:
    if options.path:
        return _lint_files(Path(os.path.expanduser(options.path)), options)
    file = session.file
    if file is None:
        return [_lint_session(session.program(), options)]
    shown = Path(os.path.relpath(file)) if file.is_relative_to(Path.cwd()) else file
    if not session.is_saved(SourceFile.read(file)):
        print(f"{shown} has changed since it was saved: save it first. These findings are about the saved file.\n")
    return _lint_files(shown, options)


def _lint_files(path: Path, options: Any) -> list[LintedFile]:
    return list(run(Discovery(Configurations(_overrides(options))).files([path])).files)


def _lint_session(source: SourceFile, options: Any) -> LintedFile:
    """Parse all of it, so that a cell that is not Python is a finding, as in an editor."""
    settings = Discovery(Configurations(_overrides(options))).settings_of(Path(NAME))
    assert settings is not None, "what is named is linted"
    found = examine(source, settings.selection(Path(NAME)), always_parse=True)
    return LintedFile(source, tuple(found.findings))


def _overrides(options: Any) -> Overrides:
    return Overrides(_listed(options.select), _listed(options.ignore), preview=options.preview)


def _listed(values: list[str]) -> tuple[str, ...]:
    return tuple(word.strip() for value in values for word in value.split(",") if word.strip())


# -- options --------------------------------------------------------------------------------------------


def _parser() -> Any:
    from IPython.core.magic_arguments import MagicArgumentParser

    parser: Any = MagicArgumentParser(f"%{_MAGIC}", description=_DESCRIPTION)
    add: Callable[..., object] = parser.add_argument
    rules = "names, codes, prefixes of codes or categories, separated by commas"
    add("path", nargs="?", default="", metavar="PATH", help="The file or folder to lint; not for a cell.")
    add("--select", action="append", default=[], metavar="RULES", help=f"Use only these rules: {rules}.")
    add("--ignore", action="append", default=[], metavar="RULES", help="Do not use these rules.")
    add("--preview", action="store_true", help="Turn on preview rules and low-confidence findings.")
    add("--run", action="store_true", help="Run the cell if it has no findings.")
    return parser


def _options(line: str, *, is_cell: bool) -> Any:
    from IPython.core.error import UsageError

    options = _parser().parse_argstring(line)
    if is_cell and options.path:
        raise UsageError(f"%%{_MAGIC} lints its cell: leave out {options.path!r}")
    if not is_cell and options.run:
        raise UsageError(f"--run is for a cell: %%{_MAGIC} --run")
    return options


@contextmanager
def _errors_of_the_user() -> Iterator[None]:
    """Report in one line, without a traceback, errors that the user can correct."""
    from IPython.core.error import UsageError

    from torchlint.engine.registry import RegistryError, UnknownRule
    from torchlint.project.config import ConfigError

    try:
        yield
    except (ConfigError, RegistryError, UnknownRule, OSError) as error:
        raise UsageError(str(error)) from None
