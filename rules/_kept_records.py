"""Checkpoints of the best score that keep the worst one, because the comparison prefers the other direction."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint.lazy_pattern import LazyPattern
from torchlint.model import definitions
from torchlint.model.queries import names, scores, variables, written
from torchlint.syntax import python_ast
from torchlint.syntax.python_ast import Site

from .record_never_beaten import never_beaten

if TYPE_CHECKING:
    from torchlint import Model
    from torchlint.model.definitions import Definitions, FunctionInfo

_SAVES = LazyPattern(r"(?i)save|checkpoint|ckpt|state_dict|deepcopy")
_CHOOSES = LazyPattern(r"(?i)save|best|stop|check|ckpt|update|better|step")
"""Names of methods that may keep the best model."""
_OTHERS = LazyPattern(r"(?i)worst|min|max|low|high")
"""Names of records that keep an extreme score on purpose."""
_LESS = (ast.Lt, ast.LtE)
_ORDERED = (*_LESS, ast.Gt, ast.GtE)


class WorstKept(NamedTuple):
    """The comparison at `test` keeps the worst of the scores `name`, which it gets at `site`."""

    site: Site
    test: Site
    name: str
    better: scores.Better


class _Choice(NamedTuple):
    """A comparison of a score with a record, after which the code keeps the score and saves the model."""

    test: ast.Compare
    score: ast.expr
    kept: scores.Better


def worst_kept(model: Model) -> Iterator[WorstKept]:
    """The choices of a file by a score of the other direction, or of a function that gets such a score."""
    known, told = model.definitions, {found.site for found in never_beaten(model)}
    for scope in (known.tree.module, *known.functions):
        for choice in _choices(scope, known):
            name = _name(choice.score)
            is_own = (
                not variables.is_parameter(name, choice.test, known) and python_ast.site_of(choice.test) not in told
            )
            if is_own and scores.better_by_name(name) is _opposite(choice.kept):
                site = python_ast.site_of(choice.test)
                yield WorstKept(site, site, name, _opposite(choice.kept))
    for call in known.tree.of_type(ast.Call):
        if any(scores.better_by_name(_name(item)) is not None for item in python_ast.arguments(call)):
            function = _called(call, model)
            yield from _given_wrong(call, function) if function is not None else ()


def _given_wrong(call: ast.Call, function: FunctionInfo) -> Iterator[WorstKept]:
    """The arguments of a call by which its function keeps the worst model."""
    for choice in _choices(function.node, function.definitions):
        parameter = python_ast.dotted(choice.score)
        item = _argument(call, function, parameter)
        is_same = item is not None and not any(names.stores([parameter], function.node))
        if item is not None and is_same and scores.better_by_name(_name(item)) is _opposite(choice.kept):
            yield WorstKept(
                python_ast.site_of(item), python_ast.site_of(choice.test), _name(item), _opposite(choice.kept)
            )


def _opposite(better: scores.Better) -> scores.Better:
    return scores.Better.HIGHER if better is scores.Better.LOWER else scores.Better.LOWER


def _name(node: ast.expr) -> str:
    """The name of a score: `val_acc`, `self.val_acc`, `scores["val_acc"]`."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
        return node.slice.value
    return python_ast.last_name(node) if isinstance(node, (ast.Name, ast.Attribute)) else ""


def _choices(scope: ast.AST, known: Definitions) -> list[_Choice]:
    """The choices in a function, or in the module, without scores that it compares in both directions."""
    found = list(_comparisons(scope, known))
    kept = {(ast.unparse(item.score), item.kept) for item in found}
    return [item for item in found if (ast.unparse(item.score), _opposite(item.kept)) not in kept]


def _comparisons(scope: ast.AST, known: Definitions) -> Iterator[_Choice]:
    for condition in (item for item in names.own_nodes(scope) if isinstance(item, ast.If)):
        is_joined = isinstance(condition.test, ast.BoolOp)
        tests = condition.test.values if isinstance(condition.test, ast.BoolOp) else [condition.test]
        for test in (item for item in tests if isinstance(item, ast.Compare) and isinstance(item.ops[0], _ORDERED)):
            less = scores.Better.LOWER if isinstance(test.ops[0], _LESS) else scores.Better.HIGHER
            for score, record, kept in (
                (test.left, test.comparators[0], less),
                (test.comparators[0], test.left, _opposite(less)),
            ):
                record = record.left if isinstance(record, ast.BinOp) else record
                if len(test.ops) > 1 or not python_ast.dotted(record) or _OTHERS.search(python_ast.dotted(record)):
                    continue
                if _keeps(condition.body, record, score):
                    yield _turned(test, score, kept, known)
                elif not is_joined and _keeps(condition.orelse, record, score):
                    yield _turned(test, score, _opposite(kept), known)


def _turned(test: ast.Compare, score: ast.expr, kept: scores.Better, known: Definitions) -> _Choice:
    """The choice by the score behind `score = -val_loss`."""
    value = written.only_value(score, known)
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub):
        return _Choice(test, value.operand, _opposite(kept))
    return _Choice(test, score, kept)


def _keeps(branch: list[ast.stmt], record: ast.expr, score: ast.expr) -> bool:
    """Whether a branch makes a score the record, and saves something."""
    nodes = [node for statement in branch for node in python_ast.walk(statement)]
    is_saved = any(_SAVES.search(python_ast.called_name(node)) for node in nodes if isinstance(node, ast.Call))
    return is_saved and any(
        isinstance(node, ast.Assign)
        and any(python_ast.written_alike(target, record) for target in node.targets)
        and python_ast.written_alike(node.value, score)
        for node in nodes
    )


def _called(call: ast.Call, model: Model) -> FunctionInfo | None:
    """The function of the program that a call runs, also the one method of this name, or an object's `__call__`."""
    known = model.definitions
    found = names.function(call.func, known) or known.function_anywhere(python_ast.dotted(call.func))
    if found is not None:
        return found
    made = written.value_of(call.func, known)
    info = known.defined(python_ast.dotted(made.func)) if isinstance(made, ast.Call) else None
    if isinstance(info, definitions.ClassInfo):
        return info.method("__call__")
    name = call.func.attr if isinstance(call.func, ast.Attribute) and _CHOOSES.search(call.func.attr) else ""
    methods = [item for item in model.program.functions_named({name}) if item.owner is not None] if name else []
    return methods[0] if len(methods) == 1 else None


def _argument(call: ast.Call, function: FunctionInfo, parameter: str) -> ast.expr | None:
    """The argument that a call gives to a parameter."""
    if any(isinstance(item, ast.Starred) for item in call.args):
        return None
    places = function.parameters[1 if function.is_method else 0 :]
    given = [*zip(places, call.args, strict=False), *((item.arg, item.value) for item in call.keywords)]
    return next((value for name, value in given if name == parameter), None)
