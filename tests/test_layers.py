"""The house (docs/architecture.md): imports point one way, rules see the public API only, modules are named well."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

import torchlint

ROOT = Path(__file__).parent.parent
LAYERS = (
    {"addresses", "finding", "lazy_import", "lazy_pattern", "colours", "suggest", "wrapping"},
    {"files"},
    {"syntax", "pytorch", "results"},
    {"index"},
    {"model"},
    {"repairs"},
    {"rule"},
    {"engine"},
    {"project"},
    {"outputs"},
    {"run", "adoption", "trace"},
    {"verify"},
    {"server", "testing", "jupyter"},
    {"cli"},
)
INTERPRETER = (
    "interpret.machine",
    "interpret.transfer",
    "interpret.expressions",
    "interpret.control",
    "interpret.interpreter",
)
"""The layers of the interpreter, from below; `machine` says how a part reaches those above it."""
RANK = {module: rank for rank, layer in enumerate(LAYERS) for module in layer}
OF_AN_EDITOR = {"ls.documents.open"}
"""Opens a document, which is no file."""
ENTRY_POINTS = {"__main__"}
"""May import anything, and nobody imports them."""

PACKAGE = sorted((ROOT / "torchlint").rglob("*.py"))
PROBE = sorted((ROOT / "torchlint" / "verify" / "boot").rglob("*.py"))
VERIFY = sorted({*(ROOT / "torchlint" / "verify").rglob("*.py")} - {*PROBE})
RULES = sorted((ROOT / "rules").glob("*.py"))
TESTS = sorted(set((ROOT / "tests").rglob("*.py")) - set((ROOT / "tests" / "reported" / "cases").rglob("*.py")))


def shown(path: Path) -> str:
    return str(path.relative_to(ROOT))


def unit(path: Path) -> str:
    """The first name below `torchlint`: a module, or a room."""
    return below_torchlint(path.with_suffix("")).partition("/")[0]


def below_torchlint(path: Path) -> str:
    return path.relative_to(ROOT / "torchlint").as_posix()


def for_each(paths: Iterable[Path]) -> Callable[[Callable[[Path], None]], Callable[[], None]]:
    """Makes a check of one file a test of many, which names all that fail."""

    def decorate(check: Callable[[Path], None]) -> Callable[[], None]:
        def test() -> None:
            problems = [f"{shown(path)}: {problem}" for path in paths if (problem := problem_of(check, path))]
            assert not problems, "\n".join(problems)

        test.__doc__ = check.__doc__
        return test

    return decorate


def problem_of(check: Callable[[Path], None], path: Path) -> str:
    """Why a check of a file fails; empty if it does not."""
    try:
        check(path)
    except AssertionError as error:
        return str(error) or "fails"
    return ""


@cache
def nodes(path: Path) -> list[ast.AST]:
    """The nodes of a file that the tests ask about."""
    wanted = (ast.Import, ast.ImportFrom, ast.Call, ast.ClassDef)
    return [node for node in ast.walk(ast.parse(path.read_bytes())) if isinstance(node, wanted)]


@cache
def imports(path: Path) -> list[tuple[str, str]]:
    """Module and name of every import in a file; the name is empty in `import module`."""
    return list(_imports(path))


def _imports(path: Path) -> Iterator[tuple[str, str]]:
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield from ((module, alias.name) for alias in node.names)


@for_each(PACKAGE)
def test_imports_point_one_way(path: Path) -> None:
    own = unit(path)
    if own in {"__init__", *ENTRY_POINTS}:
        return
    assert own in RANK, f"say in LAYERS where {own} belongs"
    for module, name in imports(path):
        assert not module.startswith("."), f"write `from torchlint...`, not `from {module}`"
        if module.partition(".")[0] != "torchlint":
            continue
        target = module.split(".")[1] if "." in module else name
        assert target in RANK, f"{target} is the public API, which is for rules and embedders"
        entry = RANK[own] == len(LAYERS) - 1 and target != own
        assert RANK[target] < RANK[own] + (not entry), f"{own} must not import {target}"


@for_each(VERIFY)
def test_the_verifier_knows_findings_and_sources_and_nothing_of_how_they_were_found(path: Path) -> None:
    known = {"finding", "files", "colours", "outputs", "results", "verify"}
    if path.name == "sarif.py":
        known.add("engine")
    for module, name in imports(path):
        if module.partition(".")[0] == "torchlint":
            assert (module.split(".")[1] if "." in module else name) in known, f"{module} {name}"
        assert module.partition(".")[0] not in ("torch", "torchlint_probe"), "torch is for the probe"


@for_each(PROBE)
def test_the_probe_needs_the_standard_library_and_torch_only(path: Path) -> None:
    for module, _ in imports(path):
        top = module.partition(".")[0]
        assert top in {*sys.stdlib_module_names, "torch", "torchlint_probe"}, module


@for_each([path for path in PACKAGE if unit(path) not in ("verify", "cli")])
def test_only_its_own_command_reaches_the_verifier(path: Path) -> None:
    """It runs programs: neither the check, nor the hook, nor an editor must get there."""
    assert not [module for module, name in imports(path) if f"{module}.{name}".startswith("torchlint.verify")]


OPENERS = {"open", "read_bytes", "read_text", "write_bytes", "write_text"}
MAY_OPEN = ("files/regular", "files/atomic_write", "run/cache/", "adoption/git", "testing/", "verify/", "cli/")
"""Modules that read and write files of a checkout for all others, or that only open torchlint's own files."""


@for_each([path for path in PACKAGE if not below_torchlint(path).startswith(MAY_OPEN)])
def test_only_few_open_files(path: Path) -> None:
    """A checkout may put a link, a pipe or a device in the place of any: `regular` and `atomic_write` know."""
    for node in nodes(path):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            is_opener = called.rpartition(".")[2] in OPENERS and called not in OF_AN_EDITOR
            assert not is_opener, f"line {node.lineno}: {called} opens a file: take `regular.read`, or `atomic_write`"


@for_each([*PACKAGE, *TESTS])
def test_nobody_imports_a_rule(path: Path) -> None:
    if b"rules" not in path.read_bytes():
        return
    for module, name in imports(path):
        target = f"{module}.{name}."
        assert not target.startswith(("rules.", "torchlint.rules.")), f"from {module} import {name}"


@for_each([*PACKAGE, *RULES])
def test_only_syntax_knows_the_insides_of_libcst(path: Path) -> None:
    for module, name in imports(path):
        if module.partition(".")[0] == "libcst":
            inside = any(part.startswith("_") for part in [*module.split("."), name])
            assert not inside or unit(path) == "syntax", module
            assert "metadata" not in (*module.split("."), name), "the metadata providers cost ten times the parse"


@for_each([*PACKAGE, *RULES, *TESTS])
def test_modules_are_named_for_what_they_own(path: Path) -> None:
    assert not {"utils", "util", "helpers", "helper", "common", "misc"} & {*path.parts, path.stem.strip("_")}


@cache
def imported_in_model() -> dict[str, set[str]]:
    """The modules of the model, each with those that it imports, be it for type checkers only."""
    paths = {below_torchlint(path.with_suffix("")).replace("/", "."): path for path in PACKAGE if unit(path) == "model"}
    return {name: {*_modules_of(path, paths.keys())} - {name} for name, path in paths.items()}


def _modules_of(path: Path, known: Collection[str]) -> Iterator[str]:
    for module, name in imports(path):
        module = module.removeprefix("torchlint.")
        yield from (found for found in (f"{module}.{name}", module, f"{module}.__init__") if found in known)


def test_no_modules_of_the_model_import_each_other_in_a_circle() -> None:
    left = {name: {*targets} for name, targets in imported_in_model().items() if not name.endswith("__init__")}
    while left:
        imported = set().union(*left.values())
        circle = {name for name, targets in left.items() if name in imported and not left.keys().isdisjoint(targets)}
        assert len(circle) < len(left), f"in a circle, or between two: {sorted(circle)}"
        left = {name: left[name] & circle for name in circle}


def test_layers_of_the_interpreter_import_one_way() -> None:
    """Transfer functions know no expression, expressions no statement; only `program` runs the interpreter."""

    def layer(name: str) -> int:
        return next((rank for rank, below in enumerate(INTERPRETER) if name.startswith(f"model.{below}")), -1)

    problems = [
        f"{name} must not import {target}"
        for name, targets in imported_in_model().items()
        for target in targets
        if layer(target) > layer(name) and name != "model.program"
    ]
    assert not problems, "\n".join(problems)


def test_no_class_has_many_ancestors() -> None:
    """A class has at most three ancestors of ours: what is more is several objects."""
    bases: dict[str, set[str]] = {}
    for path in (*PACKAGE, *RULES):
        for node in nodes(path):
            if isinstance(node, ast.ClassDef):
                bases.setdefault(node.name, set()).update(ast.unparse(base).split(".")[-1] for base in node.bases)

    def ancestors(name: str) -> set[str]:
        ours = (bases[name] - {name}) & bases.keys()
        return ours.union(*map(ancestors, ours))

    assert not {name: found for name in bases if len(found := ancestors(name)) > 3}


def test_public_api() -> None:
    """Every name can be had; having the package costs no LibCST; nothing else is there."""
    assert sorted(torchlint.__all__) == sorted(set(torchlint.__all__) & set(dir(torchlint)))
    for name in torchlint.__all__:
        assert getattr(torchlint, name)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        print(torchlint.nonsense)  # type: ignore[attr-defined]
