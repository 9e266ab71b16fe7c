"""Leaving an argument out."""

from __future__ import annotations

import libcst as cst

from torchlint.syntax.edits import Change, Delete


def without(call: cst.CSTNode | None, name: str) -> Change | None:
    """The change that leaves a keyword argument out of a call; None if it is not there."""
    for argument in call.args if isinstance(call, cst.Call) else ():
        if argument.keyword is not None and argument.keyword.value == name:
            return Change(f"drop `{name}=True`", [Delete(argument)])
    return None
