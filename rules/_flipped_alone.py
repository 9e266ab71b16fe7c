"""Images that a dataset flips at random, without their masks, boxes or keypoints."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import names
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint import Model
    from torchlint.model.definitions import FunctionInfo
    from torchlint.syntax.python_ast import Site

_PLACED = LazyPattern(
    r"(?i)^(?:gt_?)?(?:masks?|seg(?:mentation)?(?:_?map)?|bb?oxe?s?|bound(?:ing)?_?box(?:es)?|key_?points?|kpts?"
    r"|landmarks?|joints?(?:_?2d)?)$"
)
"""Variables whose content belongs to places of an image."""
_FLIPPING = frozenset("fliplr flipud flip hflip vflip mirror transpose rot90".split())
_DRAW = LazyPattern(r"^(?:np\.random|numpy\.random|random|torch)\.(?:rand\w*|uniform|choice)$")
_TURNED = LazyPattern(r"FLIP_|TRANSPOSE")


class FlippedAlone(NamedTuple):
    """The code at `site` flips `image` in some samples, and leaves `target` as it is."""

    site: Site
    condition: Site
    image: str
    target: str


def of_model(model: Model) -> Iterator[FlippedAlone]:
    for method in model.definitions.functions.values():
        if method.name == "__getitem__" and method.owner is not None:
            yield from _of_method(method, model)


def _of_method(method: FunctionInfo, model: Model) -> Iterator[FlippedAlone]:
    nodes = list(names.own_nodes(method.node))
    for branch in nodes:
        if not isinstance(branch, ast.If) or branch.orelse or not _draws(branch.test):
            continue
        flips = [_flipped(statement) for statement in branch.body]
        if not all(flips) or any(_PLACED.search(name) for name in flips):
            continue
        same = [item for item in nodes if isinstance(item, ast.Name) and _PLACED.search(item.id)]
        for target in sorted({item.id for item in same}):
            uses = [item for item in same if item.id == target]
            before = [item for item in uses if not isinstance(item.ctx, ast.Load) and item.lineno < branch.lineno]
            after = [item for item in uses if item.lineno > (branch.end_lineno or 0)]
            inside = [item for item in uses if branch.lineno <= item.lineno <= (branch.end_lineno or 0)]
            if before and not inside and any(isinstance(item.ctx, ast.Load) for item in after):
                sites = python_ast.site_of(branch.body[0]), python_ast.site_of(branch.test)
                yield FlippedAlone(*sites, flips[0], target)
                return


def _draws(test: ast.expr) -> bool:
    """Whether a condition draws a random number itself."""
    calls = (item for item in python_ast.walk(test) if isinstance(item, ast.Call))
    return any(_DRAW.search(python_ast.dotted(call.func)) for call in calls)


def _flipped(statement: ast.stmt) -> str:
    """The variable that a statement flips; empty if it does anything else."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return ""
    target, value = statement.targets[0], statement.value
    if not isinstance(target, ast.Name) or target.id not in python_ast.names_read(value):
        return ""
    for node in python_ast.walk(value):
        if isinstance(node, ast.Call) and python_ast.called_name(node) in _FLIPPING:
            is_flip = python_ast.called_name(node) != "transpose" or _TURNED.search(ast.unparse(node))
            return target.id if is_flip else ""
        if isinstance(node, ast.Subscript) and _is_of_places(node):
            return target.id
    return ""


def _is_of_places(value: ast.Subscript) -> bool:
    """Whether an index reverses rows or columns, not the channels of an image: `img[:, ::-1]`, `img[:, :, ::-1]`."""
    cuts = value.slice.elts if isinstance(value.slice, ast.Tuple) else [value.slice]
    if any(isinstance(cut, ast.Constant) for cut in cuts):
        return False
    steps = [cut.step if isinstance(cut, ast.Slice) else None for cut in cuts[:2]]
    return any(step is not None and ast.unparse(step) == "-1" for step in steps)
