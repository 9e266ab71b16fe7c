"""Remove IPython's additions to Python from a cell: magics, shell commands and help."""

from __future__ import annotations

import re
from collections.abc import Iterator

from torchlint.files.python import UNREADABLE, python_tree
from torchlint.lazy_pattern import LazyPattern

SUFFIX = ".ipynb"
"""How the name of a notebook ends."""
_CODE_CELLS = frozenset(
    f"%%{name}" for name in "time timeit capture prun memit mprun heat scalene python3 torchlint".split()
)
"""Cell magics whose cell is Python of the same program."""
_LINE_MAGICS = frozenset(
    "alias alias_magic autoawait autocall automagic autosave bookmark cat cd clear code_wrap colors conda config "
    "connect_info copy cp ddir debug dhist dirs doctest_mode echo ed edit env gui hist history install_ext "
    "killbgscripts ldir less lf lk ll load load_ext loadpy logoff logon logstart logstate logstop ls lsmagic lx macro "
    "magic mamba man matplotlib micromamba mkdir more mv notebook page pastebin pdb pdef pdoc pfile pinfo pinfo2 pip "
    "popd pprint precision prun psearch psource pushd pwd pycat pylab qtconsole quickref recall rehashx reload_ext ren "
    "rep rerun reset reset_selective rm rmdir run save sc set_env store subshell sx system tb tensorboard time timeit "
    "unalias unload_ext uv who who_ls whos xdel xmode".split()
)
"""One-line magics of IPython, Jupyter and TensorBoard, and IPython's aliases on any system."""
_AUTOMAGIC = LazyPattern(r"(?P<before>\s*)(?P<line>(?P<name>[A-Za-z_]\w*)(?![\w.*=,])[^\r\n]*)(?P<newline>\r\n|\r|\n|)")
_SUSPECT = LazyPattern(r"^[ \t]*[%!?]|=[ \t]*[%!]|\?[ \t]*$", re.MULTILINE)
_ESCAPED = LazyPattern(r"(?P<indent>[ \t]*)(?:(?P<code>%time(?:it)?[ \t]+)(?!-)(?P<rest>\S.*)|[%!?].*)")
_ASSIGNED = LazyPattern(r"(?P<head>[ \t]*[\w., \t\[\]'\"]+=[ \t]*)(?:![^=]|%[A-Za-z_]).*")
_HELP = LazyPattern(r"(?P<indent>[ \t]*)[A-Za-z_*][\w.*\[\]]*\?{1,2}[ \t]*;?[ \t]*")
_BEFORE_CODE = LazyPattern(r"\s*(?:#[^\r\n]*(?:\r\n|\r|\n)\s*)*")
_COMPOUND = LazyPattern(r"(?:for|while|if|with|def|class|try|async|match)\b")
_TOKEN = LazyPattern(
    r"""
      (?P<string> \"{3}(?:[^"\\]|\\.|"(?!""))*(?:\"{3}|\Z) | '{3}(?:[^'\\]|\\.|'(?!''))*(?:'{3}|\Z)
        | "(?:[^"\\\r\n]|\\(?:\r\n|.))*"? | '(?:[^'\\\r\n]|\\(?:\r\n|.))*'? )
    | \#[^\r\n]*
    | (?P<open>[(\[{]) | (?P<close>[)\]}])
    | (?P<joined>\\\r?\n) | (?P<newline>\r\n|\r|\n)
    """,
    re.VERBOSE | re.DOTALL,
)


def masked(cell: str) -> str:
    """A cell as plain Python: as many lines, and all that was Python in its old place."""
    if cell.startswith("%%", begin := _begin(cell)):
        return _masked_cell(cell, begin)
    if automagic := _masked_automagic(cell):
        return automagic
    if not _SUSPECT.search(cell):
        return cell
    return _masked_lines(cell)


def without_indent(cell: str) -> str:
    """A cell as IPython runs it: the indentation of its first line is taken off each line that has it."""
    indent = cell[: len(cell) - len(cell.lstrip(" \t"))]
    return "".join(line.removeprefix(indent) for line in cell.splitlines(keepends=True))


def _masked_automagic(cell: str) -> str:
    """A cell of a single line that starts with the name of a magic and is no Python: IPython adds the `%`.

    Empty if the cell is another one.
    """
    found = _AUTOMAGIC.fullmatch(cell)
    if found is None or found["name"] not in _LINE_MAGICS or _is_python(found["line"]):
        return ""
    plain = _plain(f"%{found['line']}").replace("pass; ", "pass;", 1)  # all in its old place
    return f"{found['before']}{plain}{found['newline']}"


def _is_python(line: str) -> bool:
    try:
        python_tree(line)
    except UNREADABLE:
        return False
    return True


def _begin(cell: str) -> int:
    """Where a cell begins: Colab takes comments off before it looks for a magic."""
    found = _BEFORE_CODE.match(cell)
    return found.end() if found is not None else 0


def _masked_cell(cell: str, begin: int) -> str:
    head, newline, body = _first_line(cell[begin:])
    if head.split()[0] in _CODE_CELLS:
        return cell[:begin] + newline + masked(body)
    return re.sub(r"[^\r\n]", "", cell)


def _first_line(text: str) -> tuple[str, str, str]:
    found = re.search(r"\r\n|\r|\n", text)
    return (text[: found.start()], found[0], text[found.end() :]) if found else (text, "", "")


def _masked_lines(cell: str) -> str:
    parts, at = [], 0
    while at < len(cell):
        end = _end_of_command(cell, at)
        escape = end and _plain(cell[at:end])
        if escape:
            parts.append(escape + re.sub(r"[^\r\n]", "", cell[at + _length_of_line(cell, at) : end]))
        else:
            end = _end_of_statement(cell, at)
            parts.append(cell[at:end])
        at = end
    return "".join(parts)


def _length_of_line(text: str, at: int) -> int:
    return len(_first_line(text[at:])[0])


def _plain(command: str) -> str:
    """The replacement for the first line of a command that is not Python; empty if it may be Python."""
    line = _first_line(command)[0]
    if found := _ESCAPED.fullmatch(line):
        if found["code"] and not _COMPOUND.match(found["rest"]):
            return f"{found['indent']}{'pass;':{len(found['code'])}}{found['rest']}"
        return f"{found['indent']}pass"
    if found := _HELP.fullmatch(line):
        return f"{found['indent']}pass"
    if found := _ASSIGNED.fullmatch(line):
        return f"{found['head']}None"
    return ""


def _end_of_command(cell: str, at: int) -> int:
    """The end of a line, and of those that a backslash joins to it."""
    for found in re.finditer(r"(?P<joined>\\)?(?:\r\n|\r|\n)", cell[at:]):
        if not found["joined"]:
            return at + found.end()
    return len(cell)


def _end_of_statement(cell: str, at: int) -> int:
    """The end of the line on which no bracket or string that starts at `at` is open any more."""
    depth = 0
    for kind, end in _tokens(cell, at):
        depth += (kind == "open") - (kind == "close")
        if kind == "newline" and depth <= 0:
            return end
    return len(cell)


def _tokens(cell: str, at: int) -> Iterator[tuple[str | None, int]]:
    for found in _TOKEN.finditer(cell, at):
        yield found.lastgroup, found.end()
