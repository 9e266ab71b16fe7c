"""Tests of parameter names that are the same for all names."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple, TypeGuard

from torchlint import Category, Confidence, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import written
from torchlint.syntax import python_ast

_NAMED = frozenset({"named_parameters", "named_modules", "named_children", "named_buffers", "items", "keys"})
_PARAMETERS = "named_parameters"
_BUFFERS = "named_buffers"
_OF_STATES = "items"
_COMPREHENSIONS = (ast.SetComp, ast.ListComp, ast.GeneratorExp, ast.DictComp)
_COLLECTIONS = frozenset({"set", "list", "dict", "tuple", "frozenset"})
_FRAGMENTS = LazyPattern(r"(?i)^(bias|gamma|beta|.*norm\d?(\.(weight|bias))?|bn|ln|weight)$")
"""Parts of parameter names: the whole name begins with the layer, `encoder.layer.0.output.dense.bias`."""


class AlwaysAlike(NamedTuple):
    """The test at `site` has the same result for each name, because of the text `text`."""

    site: python_ast.Site
    text: str
    name: str


class WholeNames(NamedTuple):
    """The test at `site` compares whole names with `texts`, which are parts of names."""

    site: python_ast.Site
    name: str
    texts: str
    is_sure: bool


class OtherKind(NamedTuple):
    """The test at `site` looks for names of `searched` among those of `collected`: parameters and buffers."""

    site: python_ast.Site
    searched: str
    collected: str
    is_negated: bool


class NameTestSelectsAll(Rule):
    """A test of parameter names gives the same answer for all of them.

    ## What it does
    Finds three kinds of tests in loops over the names of parameters, modules or states:

    - `"head" or "neck" in name`, which is true for each name, because the string `"head"` counts as true;
    - `name in ["bias", "LayerNorm.weight"]` for the names of `named_parameters()`. A name starts with the path of its
      layer, as in `encoder.0.bias`, and so is never in the list;
    - `name in names` for the names of `named_parameters()`, where `names` holds those of `named_buffers()`, or the
      reverse. No parameter is a buffer.

    Reported only with `--preview`: lists with other strings, because these may be full parameter names of a small
    model.

    ## Why is this bad?
    The code freezes, initializes or decays all parameters instead of the selected ones, or none of them. Nothing
    raises.

    ## Example
    ```python
    def freeze(model):
        for name, parameter in model.named_parameters():
            if "backbone" or "neck" in name:
                parameter.requires_grad = False
    ```

    Use instead:
    ```python
    def freeze(model):
        for name, parameter in model.named_parameters():
            if "backbone" in name or "neck" in name:
                parameter.requires_grad = False
    ```

    ## References
    - [torch.nn.Module.named_parameters](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.named_parameters)
    """

    code = "TL146"
    category = Category.CORRECTNESS
    triggers = ((b"named_", b"state_dict"), (b" in ",))

    def ask(self) -> Iterator[AlwaysAlike | WholeNames | OtherKind]:
        for test in self.model.tree.of_type(ast.BoolOp):
            texts = [item for item in test.values if isinstance(item, ast.Constant) and isinstance(item.value, str)]
            names = [item.comparators[0] for item in test.values if _is_membership(item) and _is_text(item.left)]
            if texts and texts[0].value and names and isinstance(test.op, ast.Or):
                name = python_ast.dotted(names[0])
                if name and self._source(name, test) is not None:
                    yield AlwaysAlike(python_ast.site_of(test), self.model.tree.code(texts[0]), name)
        for compare in self.model.tree.of_type(ast.Compare):
            if _is_membership(compare) and isinstance(compare.left, ast.Name):
                parts = self._texts(compare.comparators[0])
                if parts and self._source(compare.left.id, compare) == _PARAMETERS:
                    is_sure = len(parts) > 1 and all(map(_FRAGMENTS.search, parts))
                    code = self.model.tree.code(compare.comparators[0])
                    yield WholeNames(python_ast.site_of(compare), compare.left.id, code, is_sure)
                collected, searched = self._kind_in(compare.comparators[0]), self._source(compare.left.id, compare)
                if {collected, searched} == {_PARAMETERS, _BUFFERS} and searched is not None and collected is not None:
                    is_negated = isinstance(compare.ops[0], ast.NotIn)
                    yield OtherKind(python_ast.site_of(compare), searched, collected, is_negated)

    def _kind_in(self, node: ast.expr) -> str | None:
        """`named_buffers` for a collection of the names of buffers, and the same for parameters."""
        value = written.value_of(node, self.model.definitions)
        while isinstance(value, ast.Call) and python_ast.called_name(value) in _COLLECTIONS and len(value.args) == 1:
            value = written.value_of(value.args[0], self.model.definitions)
        if isinstance(value, _COMPREHENSIONS) and len(value.generators) == 1:
            name = value.key if isinstance(value, ast.DictComp) else value.elt
            over = value.generators[0]
            first = over.target.elts[0] if isinstance(over.target, ast.Tuple) and over.target.elts else None
            is_name = isinstance(name, ast.Name) and isinstance(first, ast.Name) and name.id == first.id
            value = over.iter if is_name else value
        last = python_ast.called_name(value) if isinstance(value, ast.Call) else None
        return last if last in (_PARAMETERS, _BUFFERS) else None

    def _texts(self, node: ast.expr) -> list[str]:
        """The texts of a list that a name holds, if they look like parts of names."""
        value = written.value_of(node, self.model.definitions)
        elements = value.elts if isinstance(value, (ast.List, ast.Tuple, ast.Set)) else []
        texts = [item.value for item in elements if isinstance(item, ast.Constant) and isinstance(item.value, str)]
        return texts if texts and len(texts) == len(elements) and any(map(_FRAGMENTS.search, texts)) else []

    def _source(self, name: str, node: ast.AST) -> str | None:
        """The method whose names a variable has in the loop or comprehension around a node."""
        for item in self.model.tree.ancestors(node):
            if isinstance(item, python_ast.SCOPES):
                return None
            loops = [item] if isinstance(item, ast.For) else getattr(item, "generators", [])
            for loop in loops:
                first = loop.target.elts[0] if isinstance(loop.target, ast.Tuple) and loop.target.elts else loop.target
                if isinstance(first, ast.Name) and first.id == name:
                    over = written.value_of(loop.iter, self.model.definitions)
                    calls = [each for each in python_ast.walk(over) if isinstance(each, ast.Call)]
                    found = [last for each in calls if (last := python_ast.called_name(each)) in _NAMED]
                    has_both = _PARAMETERS in found and _BUFFERS in found
                    return _OF_STATES if has_both else next(iter(found), None)
        return None

    def report_AlwaysAlike(self, found: AlwaysAlike) -> None:
        self.report(
            found.site,
            f"this test is true for each `{found.name}`, because the string {found.text} counts as true",
            help=f"write `{found.text} in {found.name}`",
        )

    def report_WholeNames(self, found: WholeNames) -> None:
        self.report(
            found.site,
            f"no parameter has one of these names: `{found.name}` begins with the path of its layer",
            help=f"test for a part of the name: `any(text in {found.name} for text in {found.texts})`",
            confidence=Confidence.HIGH if found.is_sure else Confidence.LOW,
        )

    def report_OtherKind(self, found: OtherKind) -> None:
        searched, collected = (item.removeprefix("named_").rstrip("s") for item in (found.searched, found.collected))
        self.report(
            found.site,
            f"no {searched} is a {collected}: this test is {'always' if found.is_negated else 'never'} true",
            help=f"iterate over `{found.collected}()`",
        )


def _is_membership(node: ast.expr) -> TypeGuard[ast.Compare]:
    return isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], (ast.In, ast.NotIn))


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
