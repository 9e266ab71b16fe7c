"""Scalers of data: what a scaler is, and to which data the one behind a result was fitted."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.model.definitions import ClassInfo, Definitions, FunctionInfo
from torchlint.model.queries import names, variables, written
from torchlint.syntax import python_ast

_STATISTICS = frozenset({"mean", "std", "min", "max", "amin", "amax", "nanmean", "nanstd"})
_FIT = "fit"


def fitted_to(value: ast.expr, definitions: Definitions) -> ast.expr | None:
    """The data that a scaler transforms after it was fitted to them; None if there may be other data.

    The result of `scaler.fit_transform(x)`, `scaler.fit(x).transform(x)`, and `scaler.transform(x)` after
    `scaler.fit(x)` in the same function.
    """
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute) or len(value.args) != 1:
        return None
    scaler, data = value.func.value, value.args[0]
    if value.func.attr == "fit_transform":
        return data if _is_scaler(scaler, definitions) else None
    if value.func.attr != "transform":
        return None
    fit: ast.Call | None
    if isinstance(scaler, ast.Call) and python_ast.called_name(scaler) == _FIT:
        fit, scaler = scaler, scaler.func.value if isinstance(scaler.func, ast.Attribute) else scaler
    else:
        fit = _last_fit(scaler, value, definitions)
    if fit is None or len(fit.args) != 1 or not python_ast.written_alike(fit.args[0], data):
        return None
    return data if _is_scaler(scaler, definitions) and not _is_rebound(data, fit, value, definitions) else None


def is_over_samples(call: ast.Call, others: int = 0) -> bool:
    """Whether a statistic covers the samples: it has no dimension, or dimension 0."""
    given = [*call.args[others:], *(item.value for item in call.keywords if item.arg in ("dim", "axis"))]
    return not given or (isinstance(given[0], ast.Constant) and given[0].value == 0)


def _last_fit(scaler: ast.expr, use: ast.Call, definitions: Definitions) -> ast.Call | None:
    """The last call of a scaler's `fit` above a use in its function, if each run of the function has it."""
    tree, scope = definitions.tree, definitions.tree.scope_around(use)
    found = [
        node for node in names.own_nodes(scope)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.lineno < use.lineno
        and node.func.attr.startswith((_FIT, "partial_fit")) and python_ast.written_alike(node.func.value, scaler)
    ]  # fmt: skip
    last = max(found, key=lambda node: node.lineno, default=None)
    statement = tree.statement(last) if last is not None else None
    around = tree.parent(statement) if statement is not None else None
    is_sure = (
        last is not None
        and python_ast.called_name(last) == _FIT
        and any(item is around for item in tree.ancestors(use))
    )
    return last if is_sure else None


def _is_rebound(data: ast.expr, fit: ast.Call, use: ast.Call, definitions: Definitions) -> bool:
    """Whether the data may be others between two calls."""
    first, last = fit.lineno, definitions.tree.statement(use)
    for name in python_ast.names_in(data):
        bound = variables.bindings(name, use, definitions)
        if any(first < item.lineno and definitions.tree.statement(item) is not last for item in bound
               if item.lineno < use.lineno):  # fmt: skip
            return True
    return False


def _is_scaler(node: ast.expr, definitions: Definitions) -> bool:
    """Whether an object is a scaler of scikit-learn, or of a class that keeps statistics of the data in `fit`."""
    made = written.value_of(node, definitions)
    if not isinstance(made, ast.Call):
        return False
    kind = names.imported(made.func, definitions)
    if kind.startswith("sklearn.preprocessing.") and kind.endswith("Scaler"):
        return True
    name, others = python_ast.dotted(made.func), definitions.others
    info = definitions.defined(name)
    if info is None and others is not None:
        info = others.anywhere(definitions.named(made.func), definitions)
    fit = info.method(_FIT) if isinstance(info, ClassInfo) else None
    return fit is not None and len(fit.parameters) > 1 and _keeps_statistics(fit)


def _keeps_statistics(fit: FunctionInfo) -> bool:
    """Whether a method keeps statistics of its first argument over the samples in its object."""
    given = fit.parameters[1]
    return any(
        isinstance(node, ast.Assign)
        and any(python_ast.dotted(item).startswith(f"{fit.parameters[0]}.") for item in _targets(node))
        and any(_is_statistic(item, given) for item in python_ast.walk(node.value))
        for node in names.own_nodes(fit.node)
    )


def _targets(node: ast.Assign) -> Iterator[ast.expr]:
    for target in node.targets:
        yield from target.elts if isinstance(target, (ast.Tuple, ast.List)) else (target,)


def _is_statistic(node: ast.AST, name: str) -> bool:
    """Whether an expression is a statistic of a variable over the samples: `x.min(axis=0)` or `np.min(x, axis=0)`."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr not in _STATISTICS:
        return False
    if python_ast.dotted(node.func.value) == name:
        return is_over_samples(node)
    return bool(node.args) and python_ast.dotted(node.args[0]) == name and is_over_samples(node, 1)
