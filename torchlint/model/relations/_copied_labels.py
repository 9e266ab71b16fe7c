"""Labels that are a copy of a padding tokenizer's tokens, found from the syntax tree alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint.syntax.python_ast import called_name, dotted, is_literal, site_of, walk, without_calls

if TYPE_CHECKING:
    from torchlint.model.definitions import Definitions
    from torchlint.syntax.python_ast import Site

_LABELS = "labels"
_TOKENS = "input_ids"
_COPYING = frozenset("clone copy detach deepcopy to squeeze view long contiguous cuda list tensor as_tensor".split())
_PADDINGS = frozenset({"max_length", "longest"})
_MOST_STEPS = 12
_TOKENIZES = "token"
"""The common part of the names of tokenizers."""


def copies(definitions: Definitions) -> Iterator[tuple[Site, Site]]:
    """The places where labels get padded tokens, each with the call of the tokenizer."""
    names = _Names(definitions)
    for node, given in _labels(definitions):
        padded = names.padding_of(given, 0)
        if padded is not None and not names.is_changed(node, given):
            yield site_of(given), site_of(padded)


def _labels(definitions: Definitions) -> Iterator[tuple[ast.AST, ast.expr]]:
    """The values passed as labels: `batch["labels"] = x`, `{"labels": x}`, `model(labels=x)`."""
    tree = definitions.tree
    for node in tree.of_type(ast.Assign):
        target = node.targets[0]
        if isinstance(target, ast.Subscript) and _is_key(target.slice, _LABELS):
            yield node, node.value
    for record in tree.of_type(ast.Dict):
        yield from (
            (record, value) for key, value in zip(record.keys, record.values, strict=True) if _is_key(key, _LABELS)
        )
    for call in tree.of_type(ast.Call):
        yield from ((call, item.value) for item in call.keywords if item.arg == _LABELS)


class _Names:
    """Follows names and attributes to the values that they are bound to."""

    def __init__(self, definitions: Definitions) -> None:
        self._definitions = definitions
        self._tree = definitions.tree

    def padding_of(self, node: ast.expr, depth: int) -> ast.Call | None:
        """The padding tokenizer call whose tokens an expression copies."""
        for _ in range(_MOST_STEPS):
            if isinstance(node, ast.Call) and called_name(node) in _COPYING:
                is_method = isinstance(node.func, ast.Attribute) and dotted(node.func.value) not in ("torch", "copy")
                inner = node.func.value if is_method and isinstance(node.func, ast.Attribute) else None
                node = inner if inner is not None else node.args[0] if node.args else ast.Constant(None)
            elif isinstance(node, (ast.Subscript, ast.Attribute)) and _are_tokens(node):
                return self._tokenizer(node.value)
            elif isinstance(node, ast.Subscript) and isinstance(node.slice, (ast.Name, ast.Constant)):
                node = node.value
            elif isinstance(node, ast.Name) and depth < 3:
                bound = self._bound(node)
                found = [self.padding_of(item, depth + 1) for item in bound] if len(bound) == 1 else []
                return found[0] if found else None
            else:
                return None
        return None

    def _tokenizer(self, node: ast.expr) -> ast.Call | None:
        """The call of a padding tokenizer that returns a record."""
        node = without_calls(node, ("to",))
        if isinstance(node, ast.Call):
            return node if _pads(node) else None
        name = dotted(node)
        made = [item for item in self._bound(node) if name and not _mentions(item, name)]
        found = [self._tokenizer(item) for item in made if isinstance(item, ast.Call)]
        return found[0] if len(found) == len(made) == 1 else None

    def _bound(self, node: ast.expr) -> list[ast.expr]:
        """The values assigned to a name in its function, or to an attribute in its class."""
        name = dotted(node)
        around = self._definitions.function_around(node)
        scope: ast.AST = around.node if around is not None else self._tree.module
        if isinstance(node, ast.Attribute) and around is not None and around.owner is not None:
            scope = around.owner.node
        assigned = (
            item for item in self._tree.of_type(ast.Assign) if scope in (*self._tree.ancestors(item), self._tree.module)
        )
        return [item.value for item in assigned if name and any(dotted(target) == name for target in item.targets)]

    def is_changed(self, node: ast.AST, given: ast.expr) -> bool:
        """Whether the function may remove padding from the labels, by a store into them or by a mask."""
        around = self._definitions.function_around(node)
        scope: ast.AST = around.node if around is not None else self._tree.module
        names = {dotted(item) for item in walk(given) if isinstance(item, ast.Name)} | {_LABELS}
        for item in walk(scope):
            if isinstance(item, ast.Subscript) and isinstance(item.ctx, ast.Store):
                inner = item.value
                if (isinstance(inner, ast.Subscript) and _is_key(inner.slice, _LABELS)) or dotted(inner) in names:
                    if not isinstance(item.slice, ast.Constant):
                        return True
            if isinstance(item, ast.Call) and called_name(item) in ("masked_fill", "masked_fill_", "where"):
                return True
        return False


def _pads(call: ast.Call) -> bool:
    """Whether a call is a tokenizer that pads several texts, or one text to a fixed length."""
    padding = next((item.value for item in call.keywords if item.arg == "padding"), None)
    if padding is None or _TOKENIZES not in dotted(call.func).lower():
        return False
    if isinstance(padding, ast.Constant) and padding.value in _PADDINGS:
        return True
    return is_literal(padding, True) and bool(call.args) and not isinstance(call.args[0], (ast.Constant, ast.JoinedStr))


def _are_tokens(node: ast.Subscript | ast.Attribute) -> bool:
    """Whether an expression reads the tokens: `batch["input_ids"]`, `batch.input_ids`."""
    return node.attr == _TOKENS if isinstance(node, ast.Attribute) else _is_key(node.slice, _TOKENS)


def _is_key(node: ast.expr | None, key: str) -> bool:
    return isinstance(node, ast.Constant) and node.value == key


def _mentions(node: ast.expr, name: str) -> bool:
    return any(dotted(item) == name for item in walk(node) if isinstance(item, (ast.Name, ast.Attribute)))
