"""Samplers that get one weight per class instead of one per sample."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Confidence, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import names, variables, written
from torchlint.syntax import python_ast

_COUNTS = frozenset({"torch.bincount", "numpy.bincount"})
_MADE_OF = frozenset("tensor as_tensor from_numpy FloatTensor DoubleTensor array asarray sqrt reciprocal".split())
_KEEPING = frozenset("float double to tolist cpu numpy clamp pow sqrt reciprocal type astype clip long".split())
_NUMBERS = frozenset({"sum", "max", "min", "mean", "len", "float", "item"})
_MOST = 20
_OF_SAMPLES = LazyPattern(r"(?i)dataset|data_?set|(train|val|test)_(set|data)|samples|labels|targets$")
"""Names of collections with one item per sample."""


class WeightsOfClasses(NamedTuple):
    """The sampler at `sampler` gets one weight for each class in the counts at `counts`."""

    sampler: python_ast.Site
    counts: python_ast.Site
    is_sure: bool
    """Whether the sampler draws as many samples as the dataset of its loader has."""


class SamplerOfClasses(Rule):
    """A sampler gets one weight per class and draws only the first samples.

    ## What it does
    Finds a `WeightedRandomSampler` whose weights are computed element by element from `bincount` or the counts of
    `unique`, without indexing by the labels. A function or a method in the same file may compute them.

    ## Why is this bad?
    The sampler draws the index of a weight, and the loader loads the sample at that index. With ten weights, it draws
    only the first ten samples, over and over. There is no error, and the model memorizes those samples.

    ## Example
    ```python
    import torch
    from torch.utils.data import DataLoader, WeightedRandomSampler

    def load(dataset, labels):
        weights = 1.0 / torch.bincount(labels)
        sampler = WeightedRandomSampler(weights, num_samples=len(dataset))
        return DataLoader(dataset, batch_size=8, sampler=sampler)
    ```

    Use instead:
    ```python
    import torch
    from torch.utils.data import DataLoader, WeightedRandomSampler

    def load(dataset, labels):
        weights = 1.0 / torch.bincount(labels)
        sampler = WeightedRandomSampler(weights[labels], num_samples=len(dataset))
        return DataLoader(dataset, batch_size=8, sampler=sampler)
    ```

    ## References
    - [WeightedRandomSampler](https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.WeightedRandomSampler)
    """

    code = "TL617"
    category = Category.SUSPICIOUS
    triggers = ((b"WeightedRandomSampler",), (b"bincount", b"return_counts"), (b"DataLoader", b"Dataset", b"torch"))

    def ask(self) -> Iterator[WeightsOfClasses]:
        for sampler in self.model.tree.of_type(ast.Call):
            if not self.model.definitions.named(sampler.func).endswith("WeightedRandomSampler"):
                continue
            named = {item.arg: item.value for item in sampler.keywords}
            weights = sampler.args[0] if sampler.args else named.get("weights")
            count = sampler.args[1] if len(sampler.args) > 1 else named.get("num_samples")
            counts = self._counts(weights, _MOST) if weights is not None else None
            if counts is not None and count is not None and not self._is_length_of(count, weights):
                is_sure = any(self._is_length_of(count, item) for item in self._datasets(sampler))
                yield WeightsOfClasses(python_ast.site_of(sampler), python_ast.site_of(counts), is_sure)

    def _datasets(self, sampler: ast.Call) -> Iterator[ast.expr]:
        """The datasets of the loaders that get a sampler, and those of which it draws, by their names."""
        known = self.model.definitions
        for loader in self.model.tree.of_type(ast.Call):
            given = {item.arg: item.value for item in loader.keywords}
            if known.named(loader.func) == "torch.utils.data.DataLoader" and "sampler" in given:
                if (written.value_in_file(given["sampler"], known) or given["sampler"]) is sampler:
                    yield from [*loader.args[:1], *([given["dataset"]] if "dataset" in given else [])]
        for item in python_ast.arguments(sampler):
            value = written.value_in_file(item, known) or item
            length = value.args[0] if isinstance(value, ast.Call) and python_ast.dotted(value.func) == "len" else None
            if length is not None and _OF_SAMPLES.search(python_ast.dotted(length)):
                yield length

    def _counts(self, node: ast.expr, steps: int) -> ast.expr | None:
        """The `bincount` from which an expression is computed, element by element."""
        if steps <= 0:
            return None
        if isinstance(node, ast.Name) and self._is_of_unique(node):
            return node
        if isinstance(node, (ast.Name, ast.Attribute)):
            value = self._value(node)
            return self._counts(value, steps - 1) if value is not None else None
        if isinstance(node, ast.ListComp):
            counts = _source_of_each(node)
            return self._counts(counts, steps - 1) if counts is not None else None
        if isinstance(node, ast.BinOp):
            left, right = self._counts(node.left, steps - 1), self._counts(node.right, steps - 1)
            if left is not None and right is None:
                return left if _is_number(node.right) else None
            return right if _is_number(node.left) or left is not None else None
        if not isinstance(node, ast.Call):
            return None
        if self.model.definitions.named(node.func) in _COUNTS:
            return node
        function = names.function(node.func, self.model.definitions)
        function = function or written.method_in_file(node.func, self.model.definitions)
        if function is not None:
            returned = None if function.decorators else names.returned_value(function)
            return self._counts(returned, steps - 1) if returned is not None else None
        name = python_ast.called_name(node)
        if name in _MADE_OF and node.args:
            return self._counts(node.args[0], steps - 1)
        is_method = isinstance(node.func, ast.Attribute) and name in _KEEPING
        return self._counts(node.func.value, steps - 1) if is_method and isinstance(node.func, ast.Attribute) else None

    def _value(self, node: ast.Name | ast.Attribute) -> ast.expr | None:
        """The last value of a variable, the value of an attribute, or what a property of the file returns."""
        known = self.model.definitions
        before = variables.value_before(node, known) if isinstance(node, ast.Name) else None
        value = before if before is not None else written.value_in_file(node, known)
        method = written.method_in_file(node, known) if value is None else None
        return names.returned_value(method) if method is not None and method.has_decorator("property") else value

    def _is_of_unique(self, name: ast.Name) -> bool:
        """Whether a variable only gets the counts of `_, counts = np.unique(labels, return_counts=True)`."""
        bound = variables.bindings(name.id, name, self.model.definitions)
        target = self.model.tree.parent(bound[0]) if len(bound) == 1 else None
        statement = self.model.tree.parent(target) if isinstance(target, ast.Tuple) else None
        call = statement.value if isinstance(statement, ast.Assign) else None
        if not isinstance(call, ast.Call) or not isinstance(target, ast.Tuple) or target.elts[-1] is not bound[0]:
            return False
        is_unique = self.model.definitions.named(call.func) in ("numpy.unique", "torch.unique")
        return is_unique and any(item.arg == "return_counts" for item in call.keywords)

    def _is_length_of(self, count: ast.expr, node: ast.expr | None) -> bool:
        """Whether an expression is `len(x)`, directly or through a name."""
        value = written.value_in_file(count, self.model.definitions) or count
        is_length = isinstance(value, ast.Call) and python_ast.called_name(value) == "len" and len(value.args) == 1
        return (
            is_length
            and isinstance(value, ast.Call)
            and node is not None
            and (python_ast.written_alike(value.args[0], node))
        )

    def report_WeightsOfClasses(self, found: WeightsOfClasses) -> None:
        self.report(
            found.sampler,
            "the sampler gets one weight per class, so it only ever draws the first samples",
            related=[(found.counts, "this has one number per class")],
            help="give each sample the weight of its class: `weights[labels]`",
            confidence=Confidence.HIGH if found.is_sure else Confidence.LOW,
        )


def _is_number(node: ast.expr) -> bool:
    """Whether an expression is a single number: `1.0`, `counts.sum()`, `len(labels)`."""
    if isinstance(node, ast.BinOp):
        return _is_number(node.left) and _is_number(node.right)
    return isinstance(node, ast.Constant) or (
        isinstance(node, ast.Call) and python_ast.called_name(node) in _NUMBERS and not node.keywords
    )


def _source_of_each(node: ast.ListComp) -> ast.expr | None:
    """The collection of whose items `[1.0 / count for count in counts]` takes one number each."""
    each, *others = node.generators
    is_plain = isinstance(each.target, ast.Name) and isinstance(node.elt, ast.BinOp) and not others and not each.ifs
    return each.iter if is_plain and python_ast.names_in(node.elt) == python_ast.names_in(each.target) else None
