"""Torchvision transforms as written: the transforms in a `Compose`, and the random ones."""

from __future__ import annotations

import ast

from torchlint.lazy_pattern import LazyPattern
from torchlint.model.definitions import Definitions
from torchlint.model.queries import names, written
from torchlint.syntax.python_ast import called_name, dotted

_TRANSFORM = LazyPattern(r"^torchvision\.transforms\.(?:v2\.)?(?:transforms\.)?(\w+)$")
_STEPS = 3
GEOMETRIC = frozenset(
    "RandomHorizontalFlip RandomVerticalFlip RandomRotation RandomCrop RandomResizedCrop RandomAffine "
    "RandomPerspective ElasticTransform".split()
)
"""Transforms that move the content of an image at random."""
_OF_PROGRAM = GEOMETRIC | {"Compose"}
_DRAWS = LazyPattern(r"\brand|uniform\(|choice\(|\.sample\(|for \w+ in self\.")
"""Code of a transform that draws a number, or of a `Compose`."""
RANDOM = GEOMETRIC | frozenset(
    "ColorJitter RandomGrayscale RandomErasing AutoAugment RandAugment TrivialAugmentWide AugMix GaussianBlur "
    "RandomAdjustSharpness RandomAutocontrast RandomEqualize RandomInvert RandomPosterize RandomSolarize".split()
)


def name_of(node: ast.expr, definitions: Definitions) -> str:
    """The torchvision transform that a call creates, or one of the program with such a name; else empty."""
    qualified = names.imported(node.func, definitions) if isinstance(node, ast.Call) else ""
    match = _TRANSFORM.search(qualified)
    if match or not isinstance(node, ast.Call) or called_name(node) not in _OF_PROGRAM:
        return match[1] if match else ""
    info = definitions.class_named(dotted(node.func))
    method = (info.method("__call__") or info.method("forward")) if info is not None else None
    code = method.definitions.tree.code(method.node) if method is not None else ""
    return called_name(node) if _DRAWS.search(code) and "seed" not in code else ""


def steps_of(node: ast.expr, definitions: Definitions) -> list[tuple[str, ast.expr]]:
    """The transforms of a `Compose`, or the single transform of an expression; empty if it is none."""
    made = written.value_of(node, definitions)
    name = name_of(made, definitions)
    if name != "Compose" or not isinstance(made, ast.Call):
        return [(name, made)] if name else []
    items = [written.value_of(item, definitions) for item in _items(made.args[0], definitions)] if made.args else []
    return [(name_of(item, definitions), item) for item in items]


def _items(node: ast.expr, definitions: Definitions) -> list[ast.expr]:
    """The items of a list, also those that its function adds later with `+=`, `append` or `extend`."""
    steps = written.value_of(node, definitions)
    if isinstance(steps, ast.List) and not isinstance(node, ast.Name):
        return steps.elts
    if not isinstance(node, ast.Name) or (around := definitions.function_around(node)) is None:
        return steps.elts if isinstance(steps, ast.List) else []
    found: list[ast.expr] = []
    for item in names.own_nodes(around.node):
        value, name = None, ""
        if isinstance(item, (ast.Assign, ast.AugAssign)):
            name = dotted(item.targets[0] if isinstance(item, ast.Assign) else item.target)
            value = item.value
        elif isinstance(item, ast.Call) and isinstance(item.func, ast.Attribute) and len(item.args) == 1:
            name = dotted(item.func.value) if item.func.attr in ("append", "extend") else ""
            value = ast.List(item.args) if item.func.attr == "append" else item.args[0]
        if name == node.id:
            starts_over = isinstance(item, ast.Assign) and found
            if not isinstance(value, ast.List) or starts_over:
                return []
            found += value.elts
    return found


def first_of(node: ast.expr, kinds: frozenset[str], definitions: Definitions, steps: int = _STEPS) -> ast.expr | None:
    """The first transform of certain kinds in an expression, perhaps under a condition."""
    made = written.value_of(node, definitions)
    if isinstance(made, ast.IfExp) and steps:
        found = [first_of(item, kinds, definitions, steps - 1) for item in (made.body, made.orelse)]
        return found[0] if found[0] is not None else found[1]
    return next((made for name, made in steps_of(node, definitions) if name in kinds), None)
