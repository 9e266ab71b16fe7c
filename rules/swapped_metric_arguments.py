"""Metrics that get the prediction in place of the target."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import callees, metric_roles, names, written
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.model.definitions import FunctionInfo
    from torchlint.syntax.python_ast import Site

_OF_TARGET_FIRST = frozenset(
    "precision_score recall_score precision_recall_fscore_support classification_report balanced_accuracy_score"
    " r2_score mean_absolute_percentage_error log_loss roc_auc_score average_precision_score"
    " precision_recall_curve roc_curve brier_score_loss top_k_accuracy_score".split()
)
"""Metrics of scikit-learn that are not symmetric."""
_OF_TARGET_SECOND = frozenset("precision recall specificity auroc average_precision r2_score".split())
"""Functions of torchmetrics that are not symmetric."""
_MATRIX = "confusion_matrix"
_RECALL = LazyPattern(r"(?i)(^|_)(rec\w*|r)(_|$)")
_ASYMMETRIC = LazyPattern(r"(?i)precision|recall|sensitivity|specificity|mape|r2\b|r_?squared|auc|hit_?rate")
_CLASSES = frozenset({"argmax", "sigmoid", "softmax", "topk"})


class Swapped(NamedTuple):
    """The metric `metric` at `site` gets a prediction as its parameter `parameter`."""

    site: Site
    metric: str
    prediction: str
    parameter: str


class SwappedMetricArguments(Rule):
    """A metric such as precision or recall gets the prediction in place of the target.

    ## What it does
    Finds calls whose arguments are named like a prediction and like a target, in the wrong order:

    - metrics of scikit-learn that are not symmetric, such as `precision_score`, `classification_report` and
      `r2_score`, and `confusion_matrix(...).ravel()`;
    - functional metrics of torchmetrics, which expect the prediction first (scikit-learn expects the target first);
    - your own functions with parameters such as `pred` and `target`, if the order matters: their name contains a
      metric such as `recall`, or their code treats only one parameter as scores, as in `pred.argmax()`.

    ## Why is this bad?
    Precision and recall change places, and averages weight the classes by how often they are predicted. R² divides by
    the variance of the predictions. There is no error, because both arrays have the same shape.

    ## Example
    ```python
    import torch
    from sklearn.metrics import precision_score, recall_score

    @torch.no_grad()
    def evaluate(model, loader):
        preds, labels = [], []
        for x, y in loader:
            preds.extend(model(x).argmax(1).tolist())
            labels.extend(y.tolist())
        return precision_score(preds, labels), recall_score(preds, labels)
    ```

    Use instead:
    ```python
    import torch
    from sklearn.metrics import precision_score, recall_score

    @torch.no_grad()
    def evaluate(model, loader):
        preds, labels = [], []
        for x, y in loader:
            preds.extend(model(x).argmax(1).tolist())
            labels.extend(y.tolist())
        return precision_score(labels, preds), recall_score(labels, preds)
    ```

    ## References
    - [sklearn.metrics](https://scikit-learn.org/stable/api/sklearn.metrics.html): `y_true` comes first
    """

    code = "TL653"
    category = Category.CORRECTNESS
    triggers = (
        (b"torch", b"sklearn"),
        (b"pred", b"output", b"hat", b"logit", b"prob", b"score"),
        (b"label", b"true", b"target", b"truth", b"gt", b"y", b"actual"),
    )

    def ask(self) -> Iterator[Swapped]:
        for call in self.model.tree.of_type(ast.Call) if not self.model.is_test else ():
            metric = names.imported(call.func, self.model.definitions)
            package, _, name = metric.rpartition(".")
            if package.startswith("sklearn.metrics") and (name in _OF_TARGET_FIRST or self._is_flat_matrix(call, name)):
                second = "y_score" if name in ("roc_auc_score", "average_precision_score") else "y_pred"
                given = written.argument(call, 0, "y_true"), written.argument(call, 1, second)
                yield from self._swapped(call, name, given, metric_roles.Role.TARGET, "y_true")
            elif package.startswith("torchmetrics.functional") and name in _OF_TARGET_SECOND:
                given = written.argument(call, 0, "preds"), written.argument(call, 1, "target")
                yield from self._swapped(call, name, given, metric_roles.Role.PREDICTION, "preds")
            elif {metric_roles.of(item) for item in python_ast.arguments(call)} >= {*metric_roles.Role}:
                yield from self._crossed(call)

    def _is_flat_matrix(self, call: ast.Call, name: str) -> bool:
        """Whether the code unpacks a confusion matrix as true and false positives and negatives."""
        parent = self.model.tree.parent(call) if name == _MATRIX else None
        return isinstance(parent, ast.Attribute) and parent.attr in ("ravel", "flatten")

    def _swapped(
        self,
        call: ast.Call,
        name: str,
        given: tuple[ast.expr | None, ast.expr | None],
        first: metric_roles.Role,
        parameter: str,
    ) -> Iterator[Swapped]:
        roles = [metric_roles.of(item) for item in given]
        if None in roles or roles[0] is roles[1] or roles[0] is first or self._is_undone(call):
            return
        prediction = given[0] if roles[0] is metric_roles.Role.PREDICTION else given[1]
        assert prediction is not None
        yield Swapped(python_ast.site_of(call), name, self.model.tree.code(prediction), parameter)

    def _is_undone(self, call: ast.Call) -> bool:
        """Whether the code takes the first result for the recall: `recall, precision, f1, _ = ...`."""
        parent = self.model.tree.parent(call)
        target = parent.targets[0] if isinstance(parent, ast.Assign) else None
        first = target.elts[0] if isinstance(target, ast.Tuple) and len(target.elts) > 1 else None
        name = python_ast.last_name(first or target) if target is not None else ""
        called = python_ast.called_name(call)
        is_other = called == "precision_score" or first is not None
        return bool(_RECALL.search(name)) if is_other else called == "recall_score" and "prec" in name.lower()

    def _crossed(self, call: ast.Call) -> Iterator[Swapped]:
        """Calls of a function of the program that name a target for its prediction, and the reverse."""
        function = callees.function(call.func, self.model.definitions)
        if function is None:
            return
        given = {name: metric_roles.of(item) for name, item in callees.arguments(call, function).items()}
        expected = {name: metric_roles.of_name(name) for name in given}
        wrong = [name for name, role in given.items() if role is not None and expected[name] not in (None, role)]
        roles = {expected[name] for name in wrong}
        same = [name for name, role in given.items() if role is not None and expected[name] is role]
        if len(wrong) != 2 or len(roles) != 2 or same or not _is_asymmetric(function, wrong):
            return
        parameter = next(name for name in wrong if expected[name] is metric_roles.Role.TARGET)
        prediction = callees.arguments(call, function)[parameter]
        yield Swapped(python_ast.site_of(call), function.name, self.model.tree.code(prediction), parameter)

    def report_Swapped(self, found: Swapped) -> None:
        self.report(
            found.site,
            f"`{found.metric}` gets `{found.prediction}` in the wrong place: prediction and target are swapped",
            help="swap the two arguments",
        )


def _is_asymmetric(function: FunctionInfo, parameters: list[str]) -> bool:
    """Whether the name of a function says that its result depends on the order, or it picks classes of one argument."""
    if _ASYMMETRIC.search(function.name):
        return True
    picked = set()
    for node in names.own_nodes(function.node):
        if isinstance(node, ast.Call) and python_ast.called_name(node) in _CLASSES:
            picked |= python_ast.names_read(node) & set(parameters)
    return len(picked) == 1
