"""Calls of functions that return a changed copy, as statements."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint.model.queries import names
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint import Model
    from torchlint.syntax.python_ast import Site

_OF_NUMPY = frozenset(
    "fliplr flipud flip rot90 clip transpose squeeze expand_dims reshape concatenate stack hstack vstack pad roll sort "
    "where abs sqrt exp log ascontiguousarray swapaxes moveaxis nan_to_num normalize interp repeat tile".split()
)
_OF_OPENCV = frozenset("flip resize cvtColor rotate".split())
_OF_TORCHVISION = frozenset(
    "hflip vflip rotate crop center_crop resized_crop resize pad affine perspective adjust_brightness adjust_contrast "
    "adjust_saturation adjust_hue adjust_gamma to_tensor to_grayscale rgb_to_grayscale gaussian_blur".split()
)
_OF_TORCH = frozenset("clamp clip squeeze unsqueeze transpose permute reshape flatten flip roll nan_to_num".split())
NAMES = _OF_NUMPY | _OF_OPENCV | _OF_TORCHVISION | _OF_TORCH
_WRITING = frozenset({"out", "dst", "inplace", None})


class DiscardedCopy(NamedTuple):
    """The call at `site` of `function` returns a changed copy of `argument`, which nothing uses."""

    site: Site
    function: str
    argument: str


def of_model(model: Model) -> Iterator[DiscardedCopy]:
    for statement in model.tree.of_type(ast.Expr):
        call = statement.value
        if not isinstance(call, ast.Call) or not call.args or not python_ast.dotted(call.args[0]):
            continue
        if any(item.arg in _WRITING for item in call.keywords):
            continue
        package, _, name = names.imported(call.func, model.definitions).rpartition(".")
        is_copy = (
            (package == "numpy" and name in _OF_NUMPY and len(call.args) < 3 + (name == "clip"))
            or (package == "torch" and name in _OF_TORCH)
            or (package == "cv2" and name in _OF_OPENCV and len(call.args) == 2)
            or (
                (package.startswith("torchvision.transforms.") and package.endswith("functional"))
                and name in _OF_TORCHVISION
            )
        )
        if is_copy and not _is_display(statement, model):
            yield DiscardedCopy(python_ast.site_of(call), ast.unparse(call.func), python_ast.dotted(call.args[0]))


def _is_display(statement: ast.Expr, model: Model) -> bool:
    """Whether a statement may run for its display, its error or its duration."""
    if model.tree.source.is_notebook and statement in model.tree.module.body:
        return True
    for item in model.tree.ancestors(statement):
        if isinstance(item, (*python_ast.TRIES, ast.With)):
            return True
        if isinstance(item, python_ast.FUNCTIONS):
            return len(item.body) == 1 or "time." in model.tree.code(item)
    return False
