"""Areas under a curve that are computed from predicted classes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.index import FileIndex
from torchlint.model.queries import predicted_classes, written
from torchlint.syntax import python_ast

_METRICS = ("roc_auc_score", "average_precision_score", "roc_curve", "precision_recall_curve")


class OfClasses(NamedTuple):
    """The metric `metric` at `site` gets `written`, which holds predicted classes."""

    site: python_ast.Site
    metric: str
    written: str


class AucOfClasses(Rule):
    """An area under a curve is computed from predicted classes instead of scores.

    ## What it does
    Finds `roc_auc_score`, `average_precision_score`, `roc_curve` and `precision_recall_curve` of scikit-learn whose
    scores come from `argmax`, `round` or a comparison. torchlint follows variables and lists in the function.

    ## Why is this bad?
    These metrics vary a threshold over the scores. Classes allow only one threshold, so the result is the balanced
    accuracy or a similar number. It is usually lower than the real area, and it may change which model is the best.

    ## Example
    ```python
    import torch
    from sklearn.metrics import roc_auc_score

    @torch.no_grad()
    def evaluate(model, loader):
        labels, scores = [], []
        for x, y in loader:
            labels.extend(y.tolist())
            scores.extend(model(x).argmax(1).tolist())
        return roc_auc_score(labels, scores)
    ```

    Use instead:
    ```python
    import torch
    from sklearn.metrics import roc_auc_score

    @torch.no_grad()
    def evaluate(model, loader):
        labels, scores = [], []
        for x, y in loader:
            labels.extend(y.tolist())
            scores.extend(model(x).softmax(1)[:, 1].tolist())
        return roc_auc_score(labels, scores)
    ```

    ## References
    - [roc_auc_score](https://scikit-learn.org/stable/modules/generated/sklearn.metrics.roc_auc_score.html)
    """

    code = "TL651"
    category = Category.CORRECTNESS
    triggers = ((b"torch",), tuple(name.encode() for name in _METRICS))

    def ask(self) -> Iterator[OfClasses]:
        classes = predicted_classes.PredictedClasses(self.model.definitions)
        for call in FileIndex.of(self.model.tree).calls_named(*_METRICS) if not self.model.is_test else ():
            name = self.model.definitions.named(call.func)
            scores = written.argument(call, 1, "y_score") or written.argument(call, 1, "probas_pred")
            if name.startswith("sklearn.metrics.") and scores is not None and classes.are_classes(scores):
                yield OfClasses(python_ast.site_of(scores), name.rpartition(".")[2], self.model.tree.code(scores))

    def report_OfClasses(self, found: OfClasses) -> None:
        self.report(
            found.site,
            f"`{found.metric}` gets predicted classes, but it varies a threshold over scores",
            help="pass the probability or the logit of the positive class",
        )
