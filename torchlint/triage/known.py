"""What is known of functions by the name that they are called by."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchlint.operators import INPLACE, MAYBE_VIEWS, NOT_DIFFERENTIABLE, OPERATORS, VIEWS, Operator

PRODUCTS = (ast.Mult, ast.Div, ast.MatMult, ast.Pow, ast.Mod)
"""Operators in whose derivatives their operands occur."""
WITHOUT_GRADIENTS = frozenset("init math np numpy os random".split())
"""Packages that autograd does not follow: `nn.init` works without gradients."""
PACKAGES = frozenset("torch F nn linalg functional self torch.nn.functional nn.functional".split())
"""What a function is an attribute of without being a method of it."""
PLAIN = frozenset(
    "len int float str bool range isinstance getattr hasattr print format join keys enumerate type id".split()
)
"""They give no tensor."""
WITHOUT_GRAPH = NOT_DIFFERENTIABLE | frozenset("zeros ones empty full arange rand randn randint eye tensor".split())
"""They give a tensor without a graph."""
BUILTINS = PLAIN | frozenset("max min sum abs round divmod pow all any slice iter next".split())
"""Python's own, under names that operators have too."""
CONTAINERS = frozenset(
    "list tuple dict set sorted reversed zip map filter defaultdict OrderedDict items values".split()
)
"""They give something that holds what they are given."""
PLAIN_TYPES = frozenset("int float bool str bytes".split())
"""Annotations of what is no tensor."""
COLLECTING = frozenset("append extend insert add update appendleft".split())
"""Methods that put something into a container."""
NOT_TENSORS = frozenset("shape device dtype ndim is_cuda training".split())
"""Attributes of tensors and modules that are none."""


def _called_by(names: Iterable[str]) -> frozenset[str]:
    """The names that operators are called by: `max` for `max.dim`, `norm` for `linalg.norm`."""
    return frozenset(
        name.partition(".")[0] if name.endswith((".dim", ".other")) else name.rpartition(".")[2] for name in names
    )


def _kept(operator: Operator) -> set[str]:
    return {item for kept in operator.saves.values() for item in kept if not item.startswith("result.")}


OPERATORS_OF_TORCH = _called_by((*OPERATORS, *INPLACE, *VIEWS, *MAYBE_VIEWS))
SHARING = _called_by((*VIEWS, *MAYBE_VIEWS))
SAVING_INPUT = _called_by(name for name, operator in OPERATORS.items() if _kept(operator) - {"result"})
SAVING_RESULT = _called_by(name for name, operator in OPERATORS.items() if "result" in _kept(operator))
