"""What is known of functions by the name that they are called by."""

from __future__ import annotations

import ast

from torchlint.pytorch.api import CREATOR_METHODS, CREATORS, PLAIN_METHODS
from torchlint.pytorch.autograd_table import INPLACE, MAYBE_VIEWS, NOT_DIFFERENTIABLE, OPERATORS, VIEWS, Operator
from torchlint.pytorch.effects import Keeps
from torchlint.pytorch.table import methods_with

PRODUCTS: dict[type[ast.operator], str] = {ast.Mult: "mul", ast.Div: "div", ast.MatMult: "matmul", ast.Pow: "pow"}
"""Operators in whose derivatives their operands occur, by the name of the function."""
WITHOUT_GRADIENTS = frozenset("init math np numpy os random".split())
"""Packages that autograd does not follow: `nn.init` works without gradients."""
PACKAGES = frozenset("torch F nn linalg functional self torch.nn.functional nn.functional".split())
"""What a function is an attribute of without being a method of it."""
PLAIN = (PLAIN_METHODS - {"numpy"}) | frozenset(
    "len int float str bool range isinstance hasattr print format join keys type id".split()
)
"""They give no tensor."""
WITHOUT_GRAPH = (NOT_DIFFERENTIABLE | CREATORS | CREATOR_METHODS) - {"detach"}
"""They give a tensor without a graph, and with memory of its own."""
BUILTINS = PLAIN | frozenset("round divmod pow all any slice".split())
"""Python's own, under names that operators have too."""
CONTAINERS = frozenset(
    "list tuple dict set sorted reversed zip map filter iter enumerate defaultdict OrderedDict items values".split()
)
"""They give something that holds what they are given."""
PLAIN_TYPES = frozenset("int float bool str bytes".split())
"""Annotations of what is no tensor."""
COLLECTING = methods_with(Keeps)
"""Methods that put something into a container."""
NOT_TENSORS = frozenset("shape device dtype ndim is_cuda training".split())
"""Attributes of tensors and modules that are none."""


def _called_by(name: str) -> str:
    """The name that an operator is called by: `max` for `max.dim`, `norm` for `linalg.norm`."""
    return name.partition(".")[0] if name.endswith((".dim", ".other")) else name.rpartition(".")[2]


def _forms() -> dict[str, list[Operator]]:
    """The forms of each operator by the name that it is called by, those that save something."""
    found: dict[str, list[Operator]] = {}
    for name, operator in OPERATORS.items():
        if operator.saves:
            found.setdefault(_called_by(name), []).append(operator)
    return found


OPERATORS_OF_TORCH = frozenset(map(_called_by, (*OPERATORS, *INPLACE, *VIEWS, *MAYBE_VIEWS)))
CALLED = OPERATORS_OF_TORCH | INPLACE
"""What a method or function may be that is not called where it is taken."""
SHARING = frozenset(map(_called_by, (*VIEWS, *MAYBE_VIEWS)))
SAVING = _forms()
PASSING = frozenset("max min sum abs rearrange repeat reduce Variable tqdm trange track deepcopy copy".split())
"""Functions of Python and of other packages that hand on what they are given."""
