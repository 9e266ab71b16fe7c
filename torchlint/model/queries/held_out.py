"""Datasets of validation and test data, by the folder, the split or the switch that their call names."""

from __future__ import annotations

import ast

from torchlint.lazy_pattern import LazyPattern
from torchlint.syntax import python_ast

_PART = LazyPattern(r"(?i)(?:^|[/_])(?:val|valid|validation|test|dev|eval)/?$")
"""Folders and splits of data that are held out."""
_NAMED = ("root", "split", "image_set", "mode", "phase", "subset", "partition")
"""Arguments that name a folder or a split."""
_TRAINING = LazyPattern(r"(?i)(^|[_.])tr(ai)?n")
_OTHER = LazyPattern(r"(?i)(^|[_.])(val(?!u)|valid|validation|dev(?!ic|el)|test|eval)(id)?(_|$|[.A-Z]|loader|set|data)")


def is_named_training(name: str) -> bool:
    """Whether a variable or attribute names training data: `self.train_loader`."""
    return _TRAINING.search(name) is not None and _OTHER.search(name) is None


def is_named_held_out(name: str) -> bool:
    """Whether a variable or attribute names validation or test data: `val_loader.dataset`."""
    return _OTHER.search(name) is not None and _TRAINING.search(name) is None


def is_held_out(call: ast.Call) -> bool:
    """Whether a call creates the dataset of a validation or test folder or split."""
    given = {item.arg: item.value for item in call.keywords}
    if getattr(given.get("train"), "value", None) is False:
        return True
    places = [*call.args[:1], *(given[name] for name in _NAMED if name in given)]
    texts = (item.value for place in places for item in python_ast.walk(place) if isinstance(item, ast.Constant))
    return any(isinstance(text, str) and _PART.search(text) is not None for text in texts)
