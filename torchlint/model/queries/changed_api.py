"""Uses of removed or deprecated PyTorch API, by qualified name."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from torchlint.model.definitions import Definitions, defaults_of
from torchlint.model.queries import names
from torchlint.model.queries.version_guards import has_other_form, is_guarded
from torchlint.model.scopes import imported_by
from torchlint.pytorch.binding import OTHER_NAMES
from torchlint.pytorch.changes import Change, Status
from torchlint.syntax.python_ast import FUNCTIONS, Site, dotted, site_of

_CLASS, _FUNCTION = "<Class>", "<function>"


@dataclass(frozen=True)
class Use:
    """A call, decorator, attribute or import that uses changed API."""

    change: Change
    name: str
    """Its qualified name."""
    node: ast.AST
    keyword: ast.keyword | None = None
    """The argument in question."""


class ChangedApi:
    """Finds the uses of some changes."""

    def __init__(self, definitions: Definitions, changes: Iterable[Change]) -> None:
        self._definitions = definitions
        self._tree = definitions.tree
        self._by_name: dict[str, list[Change]] = {}
        for change in changes:
            self._by_name.setdefault(change.name, []).append(change)
        self._last_names = {name.rpartition(".")[2] for name in self._by_name}
        imported = {target.partition(".")[0] for target in definitions.scopes.anywhere().values()}
        self._whole_modules = {
            last
            for module, _, last in (name.rpartition(".") for name in self._by_name)
            if last in (_CLASS, _FUNCTION) and module.partition(".")[0] in imported
        }
        """`<Class>` or `<function>`, for modules of the file's imports in which all of these have changed."""
        self._missing = {name for name, found in self._by_name.items() if found[0].status is Status.MISSING}

    def uses(self) -> Iterator[Use]:
        """The uses of changed API in the file, for any release."""
        uses = [*self._calls(), *self._decorators(), *self._absent()]
        guarded = self._names_for_some_releases() if uses else set()
        for use in uses:
            if _first_name(use.node) not in guarded and not self._is_guarded(use):
                yield use

    def _is_guarded(self, use: Use) -> bool:
        """Whether a use is for some releases only: the code checks the version, or the presence of an attribute."""
        if is_guarded(self._tree, use.node):
            return True
        lacks, call = use.change.lacks, use.node
        return bool(lacks) and isinstance(call, ast.Call) and has_other_form(self._tree, call, lacks)

    def _qualified(self, node: ast.expr) -> str:
        return names.imported(node, self._definitions)

    def _names_for_some_releases(self) -> set[str]:
        """Names that are imported in one release and replaced by another import in another."""
        imports = [node for node in self._tree.of_type(ast.Import, ast.ImportFrom) if is_guarded(self._tree, node)]
        return {name for node in imports for name, _ in imported_by(node)} - {"torch"}

    def _calls(self) -> Iterator[Use]:
        for call in self._tree.of_type(ast.Call):
            name = self._qualified(call.func) if self._may_name_change(call.func) else ""
            for change in self._changes(name):
                keyword = next((item for item in call.keywords if item.arg == change.keyword), None)
                if change.name in self._missing or self._hands_none_on(call, keyword):
                    continue
                if _applies(change, call, keyword):
                    yield Use(change, name, call, keyword)

    def _hands_none_on(self, call: ast.Call, keyword: ast.keyword | None) -> bool:
        """Whether an argument is a parameter of the enclosing function with default None, as if it were missing."""
        function = self._definitions.function_around(call) if keyword is not None else None
        if function is None or keyword is None or not isinstance(keyword.value, ast.Name):
            return False
        default = defaults_of(function.node).get(keyword.value.id)
        return isinstance(default, ast.Constant) and default.value is None

    def _may_name_change(self, node: ast.expr) -> bool:
        """Whether the last part of a name matches one of these, as it does in the qualified name."""
        if not isinstance(node, ast.Attribute):
            return isinstance(node, ast.Name)
        return (
            node.attr in self._last_names or (_CLASS if node.attr[:1].isupper() else _FUNCTION) in self._whole_modules
        )

    def _decorators(self) -> Iterator[Use]:
        """`@custom_fwd`, which Python calls with the function."""
        for function in self._tree.of_type(*FUNCTIONS):
            for decorator in function.decorator_list:
                name = "" if isinstance(decorator, ast.Call) else self._qualified(decorator)
                for change in self._changes(name):
                    if not change.keyword and not change.lacks and change.name not in self._missing:
                        yield Use(change, name, decorator)

    def _absent(self) -> Iterator[Use]:
        """Attributes and imports of removed names: reading them is enough."""
        for node in self._tree.of_type(ast.Attribute) if self._missing else ():
            name = self._qualified(node) if node.attr in self._last_names else ""
            if name in self._missing:
                yield Use(self._by_name[name][0], name, node)
        for node in self._tree.of_type(ast.Import, ast.ImportFrom) if self._missing else ():
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            read = (*modules, *(target for _, target in imported_by(node)))
            found = next((name for name in read if name in self._missing), None)
            if found is not None:
                yield Use(self._by_name[found][0], found, node)

    def _changes(self, name: str) -> list[Change]:
        module, _, last = name.rpartition(".")
        found = self._by_name.get(name, [])
        return found or self._by_name.get(f"{module}.{_CLASS if last[:1].isupper() else _FUNCTION}", [])


def _first_name(node: ast.AST) -> str:
    """`nn` of `nn.init.normal(w)`."""
    return dotted(node.func if isinstance(node, ast.Call) else node).partition(".")[0]


def _applies(change: Change, call: ast.Call, keyword: ast.keyword | None) -> bool:
    """Whether a call has the argument in question, or surely lacks it."""
    if change.keyword:
        return keyword is not None and not (isinstance(keyword.value, ast.Constant) and keyword.value.value is None)
    if not change.lacks:
        return True
    is_open = any(item.arg is None for item in call.keywords) or any(
        isinstance(item, ast.Starred) for item in call.args
    )
    names = (change.lacks, OTHER_NAMES.get(change.lacks, change.lacks))
    is_given = any(item.arg in names for item in call.keywords) or 0 <= change.position < len(call.args)
    return not is_open and not is_given


def place(use: Use) -> Site:
    """The node at which a use is reported."""
    return site_of(use.node)


def subject(use: Use) -> str:
    """The API in use, as a message names it."""
    change = use.change
    if change.keyword:
        return f"`{change.keyword}=` of `{use.name.rpartition('.')[2]}`"
    return f"`{use.name}` without `{change.lacks}`" if change.lacks else f"`{use.name}`"


def advice(use: Use) -> str:
    """The replacement, as a help text names it."""
    instead = use.change.instead
    return f"write {instead}" if "`" in instead else f"write `{instead}`" if " " not in instead else f"use {instead}"
