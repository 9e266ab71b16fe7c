"""The conditions that make runs comparable: a seed for programs without one, and other texts in place of files."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from types import ModuleType

from torchlint_probe.texts import Texts


def meet(path: str) -> list[tuple[str, Callable[[ModuleType], None]]]:
    """Apply the conditions in a file; returns the functions to call after imports of modules."""
    with open(path, encoding="utf-8") as file:
        conditions = json.load(file)
    seed: int = conditions["seed"]
    random.seed(seed)
    if conditions["texts"]:
        Texts(os.path.dirname(path), conditions["texts"]).install()

    def numpy_imported(numpy: ModuleType) -> None:
        numpy.random.seed(seed)

    def torch_imported(torch: ModuleType) -> None:
        torch.manual_seed(seed)

    return [("numpy", numpy_imported), ("torch", torch_imported)]
