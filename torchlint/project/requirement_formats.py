"""The releases of PyTorch that each kind of file asks for; None where it does not name `torch`, or cannot be read."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress

from torchlint.lazy_import import late
from torchlint.lazy_pattern import LazyPattern
from torchlint.project.toml_lines import line_of_long_key
from torchlint.pytorch.releases import Releases, required, specified, together

_toml = late("tomllib" if sys.version_info >= (3, 11) else "tomli")

_MAX_LINES = 10_000
_CONDA = LazyPattern(r"""\s*-\s+["']?(?:[\w./-]{1,99}::)?(?:pytorch|torch)(?![\w.-])\s*([^"'#\n]{0,200})""")
_EXPORTED = LazyPattern(r"pytorch={1,2}(\d[\w.]{0,50})(?:=[^=\s]{0,100})?\s*$")
_CONDA_VERSION = LazyPattern(r"([<>=!~]{0,3}\s*\d[\w.*]*)(?:[=\s][^,]*)?")
"""A version, and what may stand behind it: the name of a build."""


# -- lists ----------------------------------------------------------------------------------------------


def _of_list(text: str) -> Releases | None:
    """Reads a requirements.txt, also one by `conda list --export`: `pytorch=1.7.0=py3_cuda`."""
    lines = text.splitlines()[:_MAX_LINES]
    exported = (match[1] for match in map(_EXPORTED.match, lines) if match is not None)
    return required((*lines, *(f"torch=={version}" for version in exported)))


def _of_conda(text: str) -> Releases | None:
    """Reads an environment.yml, whose entries are on lines of their own: below `dependencies`, Conda's and pip's."""
    is_dependency, specifiers = False, []
    for line in text.splitlines()[:_MAX_LINES]:
        if line[:1] not in ("", " ", "\t", "-", "#"):
            is_dependency = line.startswith("dependencies")
        elif is_dependency and (match := _CONDA.match(line)):
            specifiers.append(",".join(_conda_clauses(match[1])))
    return together(map(specified, specifiers))


def _conda_clauses(text: str) -> Iterator[str]:
    """`=1.13` of `=1.13=py3_cuda`, which are a version and a build."""
    for clause in text.split(","):
        if match := _CONDA_VERSION.match(clause.strip()):
            yield match[1]


# -- tables ---------------------------------------------------------------------------------------------


def _of_project(text: str) -> Releases | None:
    """Reads a pyproject.toml: `[project]`, `[dependency-groups]`, or the tables of Poetry, PDM and uv."""
    with suppress(ValueError, RecursionError):
        if not line_of_long_key(text):
            table = _toml.loads(text)
            return together(found for found in (_of_standard(table), _of_poetry(table)) if found is not None)
    return None


def _of_standard(table: object) -> Releases | None:
    """The requirement that always holds, else an optional one."""
    project, tools = _get(table, "project"), _get(table, "tool")
    extras = (
        *_values(_get(project, "optional-dependencies")),
        *_values(_get(table, "dependency-groups")),
        *_values(_get(_get(tools, "pdm"), "dev-dependencies")),
        _get(_get(tools, "uv"), "dev-dependencies"),
    )
    return required(_strings(_get(project, "dependencies"))) or required(
        item for extra in extras for item in _strings(extra)
    )


def _of_poetry(table: object) -> Releases | None:
    poetry = _get(_get(table, "tool"), "poetry")
    groups = [_get(poetry, "dependencies"), _get(poetry, "dev-dependencies")]
    groups += [_get(group, "dependencies") for group in _values(_get(poetry, "group"))]
    return together(specified(text) for group in groups for text in _versions(_get(group, "torch")))


def _versions(value: object) -> Iterator[str]:
    """`"^1.9"`, `{version = "^1.9"}`, or a list of such."""
    for item in value if isinstance(value, list) else [value]:
        version = _get(item, "version") if isinstance(item, dict) else item
        if isinstance(version, str):
            yield version


def _get(table: object, key: str) -> object:
    return table.get(key) if isinstance(table, dict) else None


def _values(table: object) -> Iterable[object]:
    return table.values() if isinstance(table, dict) else ()


def _strings(items: object) -> list[str]:
    return [item for item in items if isinstance(item, str)] if isinstance(items, list) else []


# -- setuptools -----------------------------------------------------------------------------------------


def _of_setup_cfg(text: str) -> Releases | None:
    from torchlint.project.setup_files import of_setup_cfg

    return of_setup_cfg(text)


def _of_setup_py(text: str) -> Releases | None:
    from torchlint.project.setup_files import of_setup_py

    return of_setup_py(text)


Reader = Callable[[str], "Releases | None"]
"""Reads a file's text; None: the file does not mention torch."""
READERS: Mapping[str, Reader] = {
    "pyproject.toml": _of_project,
    "setup.cfg": _of_setup_cfg,
    "setup.py": _of_setup_py,
    "requirements.txt": _of_list,
    "environment.yml": _of_conda,
    "environment.yaml": _of_conda,
}
"""The reader of each file, by its name; in a folder the first file that names a `torch` release decides."""
_OTHERS = (
    (LazyPattern(r"(?:requirements?[\w.-]*|reqs?)\.(?:txt|in)$"), _of_list),
    (LazyPattern(r"(?i)[\w.-]*(?:env|conda)[\w.-]*\.ya?ml$"), _of_conda),
    (LazyPattern(r"[\w.-]+\.ya?ml$"), _of_conda),
)
"""Readers for other names: `requirements-gpu.txt`, `local_env.yml`, then `vision.yml` if it is Conda's."""
_MAX_OTHERS = 20
"""Files of each of these kinds of names that are read in a folder."""

FOLDERS: Mapping[str, tuple[LazyPattern[str], Reader]] = {
    "requirements": (LazyPattern(r".*\.(?:txt|in)$"), _of_list),
    **dict.fromkeys(("conda", "environments", "envs"), (LazyPattern(r".*\.ya?ml$"), _of_conda)),
}
"""Folders that hold nothing but such files, with what reads those: `envs/training.yml`."""


def readers(names: Iterable[str]) -> Iterator[tuple[str, Reader]]:
    """The files of a folder that may say which `torch`, in the order in which they decide, each with what reads it."""
    names = set(names)
    yield from ((name, reader) for name, reader in READERS.items() if name in names)
    others = names - READERS.keys()
    for pattern, reader in _OTHERS:
        found = sorted(name for name in others if pattern.match(name))
        others -= set(found)
        yield from ((name, reader) for name in found[:_MAX_OTHERS])


def readers_below(folder: str, names: Iterable[str]) -> Iterator[tuple[str, Reader]]:
    """The readers for a folder in `FOLDERS`, by the names of its entries."""
    pattern, reader = FOLDERS[folder]
    yield from ((name, reader) for name in sorted(names) if pattern.match(name))
