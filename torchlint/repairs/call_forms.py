"""Calls of what PyTorch has removed or deprecated, written as they are to be."""

from __future__ import annotations

import ast

import libcst as cst

from torchlint.finding import Safety
from torchlint.model import Model
from torchlint.model.queries.changed_api import Use
from torchlint.pytorch.changes import Fix
from torchlint.syntax.edits import Append, Change, Delete, NodeEdit, Prepend, Replace
from torchlint.syntax.matching import Nodes
from torchlint.syntax.python_ast import site_of


class ChangedCall:
    """Finds the edits of one call."""

    def __init__(self, model: Model, nodes: Nodes) -> None:
        self.model = model
        self.nodes = nodes

    def change(self, use: Use) -> Change | None:
        """The replacement; None if it is unknown, or if the lowest release of the project does not have it."""
        fix, call = use.change.fix, self.nodes.at(site_of(use.node)) if isinstance(use.node, ast.Call) else None
        if fix is None or not isinstance(call, cst.Call) or use.change.instead_since > self.model.torch.lowest:
            return None
        keywords = {item.keyword.value for item in call.args if item.keyword is not None}
        if fix.unless in keywords or any(item.star for item in call.args):
            return None
        if fix.keywords_only and any(item.keyword is None for item in call.args):
            return None
        found = [*self._renamed(fix, call, use.node), *self._arguments(fix, call, use)]
        if not found or (fix.to and not isinstance(found[0], Replace)):
            return None
        return Change(_title(fix, use), found, Safety.SAFE if fix.safe else Safety.UNSAFE)

    def _renamed(self, fix: Fix, call: cst.Call, node: ast.AST) -> list[NodeEdit]:
        name = self._local_name(fix.to) if fix.to else None
        if name is None or self.model.definitions.qualified(name, node) != fix.to:
            return []
        if fix.first and not call.args:
            return [Replace(call, f"{name}({fix.first})")]
        return [Replace(call.func, name)]

    def _local_name(self, qualified: str) -> str | None:
        """How the module writes a qualified name: `F.interpolate` rather than `torch.nn.functional.interpolate`."""
        imports = self.model.definitions.imports.items()
        fitting = [(target, local) for local, target in imports if f"{qualified}.".startswith(f"{target}.")]
        target, local = max(fitting, key=lambda item: len(item[0]), default=("", ""))
        return local + qualified[len(target) :] if local else None

    def _arguments(self, fix: Fix, call: cst.Call, use: Use) -> list[NodeEdit]:
        edits: list[NodeEdit] = []
        if fix.first and call.args:
            edits.append(_before(call.args[0], f"{fix.first}, "))
        if fix.add and call.args:
            named = next((item for item in call.args if item.keyword is not None), None)
            edits.append(_before(named, f"{fix.add}, ") if named else Append(call.args[-1].value, f", {fix.add}"))
        if use.keyword is not None:
            for item in call.args:
                if item.keyword is not None and item.keyword.value == use.keyword.arg:
                    edits += [Delete(item)] if fix.drop else self._other_value(fix, item, item.keyword, use.keyword)
        return edits

    def _other_value(self, fix: Fix, item: cst.Arg, name: cst.Name, written: ast.keyword) -> list[NodeEdit]:
        """The argument and value that stand for the one that is written."""
        code = self.model.tree.code(written.value)
        found = next(((argument, value) for old, argument, value in fix.values if old == code), None)
        return [Replace(name, found[0]), Replace(item.value, found[1])] if found is not None else []


def _before(argument: cst.Arg, text: str) -> NodeEdit:
    return Prepend(argument.keyword or argument.value, text)


def _title(fix: Fix, use: Use) -> str:
    if fix.drop:
        return f"drop `{use.change.keyword}`"
    if fix.values:
        return f"use `{fix.values[0][1]}`"
    return f"add `{fix.add}`" if not fix.to else f"use `{fix.to}`"
