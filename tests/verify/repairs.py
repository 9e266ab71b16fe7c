"""Running programs before and after their fixes, and asking whether a defect is left."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import torch

from tests.verify.training_watch import Enough, Watch, counted_graphs, watched


@dataclass
class Run:
    """One run of a program: what was seen, what it raised, which warnings came, and how large graphs are behind it."""

    seen: Watch
    error: BaseException | None
    warnings: list[str]
    nodes: int


def _nothing_is_wrong(run: Run) -> Iterator[str]:
    yield from run.seen.problems


def _no_graph_is_kept(run: Run) -> Iterator[str]:
    if run.nodes > FEW_NODES:
        yield f"graphs of {run.nodes} nodes are kept"


def _clipped(run: Run) -> Iterator[str]:
    yield from (f"a step takes gradients of size {norm}" for norm in run.seen.norms if not 0.099 < norm < 0.101)


def _rates_from_the_start(run: Run) -> Iterator[str]:
    yield from (text for text in run.warnings if "`lr_scheduler.step()` before `optimizer.step()`" in text)


def _whole_windows(run: Run) -> Iterator[str]:
    if len(set(run.seen.windows)) > 1:
        yield f"steps have gradients of {run.seen.windows} passes"


def _comes_to_its_end(run: Run) -> Iterator[str]:
    if run.error is not None:
        yield f"raises {run.error!r}"


FEW_NODES = 25
"""One iteration makes a graph of fewer nodes, all iterations together of more."""
PROPERTIES: Mapping[str, Callable[[Run], Iterator[str]]] = {
    "gradients": _nothing_is_wrong,
    "modes": _nothing_is_wrong,
    "graphs": _no_graph_is_kept,
    "clipping": _clipped,
    "schedules": _rates_from_the_start,
    "windows": _whole_windows,
    "claims": _comes_to_its_end,
    "sizes": _comes_to_its_end,
}
"""The properties that hold after the fixes of a kind of defect, and not before."""


def problems(
    kind: str, program: Callable[..., Any], give: Callable[[], dict[str, Any]]
) -> tuple[list[str], BaseException | None]:
    """The problems in one run of a program, by the property of its kind, and its error.

    `give` makes the arguments of the program, also its optimizers, while all is watched.
    """
    torch.manual_seed(0)
    random.seed(0)
    kept, error, nodes = None, None, [0]
    with ExitStack() as stack:
        if kind == "graphs":
            stack.enter_context(counted_graphs(nodes))
        seen = stack.enter_context(watched())
        warned = stack.enter_context(warnings.catch_warnings(record=True))
        warnings.simplefilter("always")
        try:
            kept = program(**give())
        except Enough:
            pass
        except (Exception, SystemExit) as raised:
            error = raised.with_traceback(None)
    run = Run(seen, error, [str(item.message) for item in warned], nodes[-1])
    del kept
    return list(PROPERTIES[kind](run)), error


def functions(text: str, name: str) -> dict[str, FunctionType]:
    """The functions that a file defines, when it is run as a module of this name."""
    names: dict[str, Any] = {"__name__": name}
    exec(compile(text, f"{name}.py", "exec"), names)
    return {key: item for key, item in names.items() if isinstance(item, FunctionType) and item.__module__ == name}


def text_of(function: str, text: str) -> str:
    """A function as it is written, from its `def` on."""
    lines = text.splitlines()
    first = next(index for index, line in enumerate(lines) if line.startswith(f"def {function}("))
    last = next((index for index in range(first + 1, len(lines)) if lines[index][:1].strip()), len(lines))
    return "\n".join(lines[first:last])
