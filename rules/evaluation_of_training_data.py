"""Evaluations that iterate over training data but divide by the length of other data."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.model.queries import batch_sums, held_out
from torchlint.syntax import python_ast


class WrongData(NamedTuple):
    """The loop at `site` iterates over `loader`, and its sum is divided at `division` by the length of `counted`."""

    site: python_ast.Site
    loader: str
    division: python_ast.Site
    counted: str


class EvaluationOfTrainingData(Rule):
    """An evaluation runs on training data and divides by another dataset's length.

    ## What it does
    Finds loops that train nothing and iterate over a training loader, recognized by its name. The code divides their
    sum by the length of validation or test data: `correct / len(val_set)`.

    ## Why is this bad?
    Overfitting stays hidden. The score measures training data, on the wrong scale. Early stopping, the choice of
    the best weights and the plots all follow data that the model has seen.

    ## Example
    ```python
    import torch

    def accuracy(model, train_loader, val_loader):
        correct = 0
        with torch.no_grad():
            for x, y in train_loader:
                correct += (model(x).argmax(1) == y).sum().item()
        return correct / len(val_loader.dataset)
    ```

    Use instead:
    ```python
    import torch

    def accuracy(model, train_loader, val_loader):
        correct = 0
        with torch.no_grad():
            for x, y in val_loader:
                correct += (model(x).argmax(1) == y).sum().item()
        return correct / len(val_loader.dataset)
    ```
    """

    code = "TL129"
    category = Category.CORRECTNESS
    triggers = ((b"tr",), (b"val", b"test", b"dev"), (b"len",), (b"torch",))

    def ask(self) -> Iterator[WrongData]:
        evaluated = {} if self.model.is_test else self._evaluated()
        for info in self.model.definitions.functions.values() if evaluated else ():
            loops = [node for node in python_ast.walk(info.node) if isinstance(node, (ast.For, ast.AsyncFor))]
            for loop in loops:
                loader = evaluated.get(loop)
                if loader is None:
                    continue
                sums = _sums(loop)
                apart = (item for item in loops if loop not in python_ast.walk(item))
                others = [item for item in apart if sums & _sums(item)]
                divided = self._divided(info.node, loop, sums) if sums and not others else None
                if divided is not None:
                    yield WrongData(python_ast.site_of(loop.iter), loader, *divided)

    def _evaluated(self) -> dict[ast.AST, str]:
        """The loops over training data that do not train, with the names of these data."""
        loops = self.model.tree.of_type(ast.For, ast.AsyncFor)
        named = ((loop, batch_sums.iterated(loop.iter)) for loop in loops)
        return {loop: name for loop, name in named if held_out.is_named_training(name) and not _trains(loop)}

    def _divided(
        self, function: ast.AST, loop: ast.For | ast.AsyncFor, sums: set[str]
    ) -> tuple[python_ast.Site, str] | None:
        """The division of a loop's sum by the length of other data."""
        for node in python_ast.walk(function):
            if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Div) or node.lineno <= loop.lineno:
                continue
            counted = batch_sums.counted(node.right)
            is_of_sum = bool(sums & python_ast.names_read(node.left))
            if counted is not None and is_of_sum and held_out.is_named_held_out(counted[0]):
                return python_ast.site_of(node), counted[0]
        return None

    def report_WrongData(self, found: WrongData) -> None:
        self.report(
            found.site,
            f"the evaluation iterates over `{found.loader}` but divides by the length of `{found.counted}`",
            related=[(found.division, "the sum is divided here")],
            help=f"iterate over the data of `{found.counted}`",
        )


def _trains(loop: ast.For | ast.AsyncFor) -> bool:
    names = (python_ast.called_name(node) for node in python_ast.walk(loop) if isinstance(node, ast.Call))
    return any("backward" in name or "step" in name or "train" in name for name in names)


def _sums(loop: ast.AST) -> set[str]:
    """The variables that a loop adds or appends to, apart from counts of its batches or samples."""
    found = set()
    for node in python_ast.walk(loop):
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
            found |= {python_ast.dotted(node.target)} if not _is_count(node.value) else set()
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append":
            found.add(python_ast.dotted(node.func.value))
    return found - {""}


def _is_count(added: ast.expr) -> bool:
    """Whether a number counts batches or samples: `1`, `len(x)`, `x.size(0)`, `x.shape[0]`."""
    if isinstance(added, ast.Subscript):
        return isinstance(added.value, ast.Attribute) and added.value.attr == "shape"
    is_call = isinstance(added, ast.Call) and python_ast.called_name(added).rpartition(".")[2] in ("len", "size")
    return is_call or isinstance(added, ast.Constant)
