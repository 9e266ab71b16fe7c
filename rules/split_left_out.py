"""Splits whose training part is unused, because a loader gets the whole dataset."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from torchlint import Category, Confidence, Rule
from torchlint.model.queries import held_out
from torchlint.model.relations import datasets
from torchlint.syntax.python_ast import Site


class SplitLeftOut(Rule):
    """Training uses the whole dataset, including the validation samples.

    ## What it does
    Finds a dataset that is split, where one loader gets the whole dataset and another loader gets one of its parts. The
    other part is assigned to a variable that nothing uses. If it is not assigned to a variable, the finding needs
    `--preview`.

    ## Why is this bad?
    The model is validated on samples that it was trained on. The validation loss hides overfitting, so it selects the
    wrong epoch.

    ## Example
    ```python
    from torch.utils.data import DataLoader, random_split

    def loaders(dataset):
        train_set, val_set = random_split(dataset, [0.8, 0.2])
        train_loader = DataLoader(dataset, batch_size=32, shuffle=True)
        val_loader = DataLoader(val_set, batch_size=32)
        return train_loader, val_loader
    ```

    Use instead:
    ```python
    from torch.utils.data import DataLoader, random_split

    def loaders(dataset):
        train_set, val_set = random_split(dataset, [0.8, 0.2])
        train_loader = DataLoader(train_set, batch_size=32, shuffle=True)
        val_loader = DataLoader(val_set, batch_size=32)
        return train_loader, val_loader
    ```

    ## References
    - [torch.utils.data.random_split](https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.random_split)
    """

    code = "TL609"
    category = Category.SUSPICIOUS
    triggers = ((b"random_split",), (b"DataLoader",))
    calls = frozenset({"random_split", "DataLoader"})

    def ask(self) -> Iterator[datasets.LeftOut]:
        if self.model.is_test:
            return
        seen = set[Site]()
        for found in chain(self.model.datasets.left_out(), self.model.datasets.left_out_of_classes()):
            is_probe = held_out.is_named_training(found.whole) and not held_out.is_named_held_out(found.used)
            if self.model.tree.own_node(found.loader) is not None and found.loader not in seen and not is_probe:
                seen.add(found.loader)
                yield found

    def report_LeftOut(self, found: datasets.LeftOut) -> None:
        whole = f"`{found.whole}`" if found.whole else "the whole dataset"
        part = f"the part `{found.used}`" if found.used else "the part"
        unused = f", and nothing uses `{found.unused}`" if found.unused else ""
        self.report(
            found.loader,
            f"this loader gets {whole}, including {part} of another loader{unused}",
            related=[(found.split, "the split is here"), (found.other, f"{part} is loaded here")],
            help=f"pass `{found.unused}` to this loader" if found.unused else "pass the other part of the split",
            confidence=Confidence.MEDIUM if found.unused else Confidence.LOW,
        )
