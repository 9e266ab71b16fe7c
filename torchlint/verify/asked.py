"""By rule, the questions to a running program about a finding, besides whether the flagged statement runs."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from torchlint.verify.paths import AccessPath, expressions_of, longest_path, path_of, paths_in
from torchlint.verify.statements import (
    COMPOUND,
    FUNCTIONS,
    LOOPS,
    FunctionNode,
    Lines,
    body_of,
    encloses,
    first_line,
    function_around,
    has_inside,
    header_of,
    last_line,
)

_NAMES = 40
"""The maximum number of names that are followed where gradients are off."""


@dataclass(frozen=True)
class Place:
    """The place of a finding in its file."""

    statements: Sequence[ast.stmt]
    flagged: ast.stmt | None
    everything: list[ast.stmt]
    """The flagged statement and the statements that the finding is about."""
    header: Lines
    """The lines of the flagged statement; of a compound one, its header."""

    @cached_property
    def function(self) -> FunctionNode | None:
        """The function around it."""
        return function_around(self.statements, self.header)

    @property
    def reach(self) -> Lines:
        """The lines that run when the finding is reached. A decorator runs at the definition, so it does not count."""
        return body_of(self.flagged) if isinstance(self.flagged, FUNCTIONS) else self.header


@dataclass(frozen=True)
class Asked:
    """The lines and names to observe, see `Claim`. Without `reach` that of the place is used."""

    names: tuple[AccessPath, ...] = ()
    container: tuple[AccessPath, ...] = ()
    resets: tuple[Lines, ...] = ()
    blocks: tuple[Lines, ...] = ()
    reach: Lines | None = None


def asked_of(rule: str, place: Place) -> Asked:
    """The questions about a finding of a rule."""
    return _ASKED[rule](place) if rule in _ASKED else Asked()


# -- by rule


def _gradients_off(place: Place) -> Asked:
    blocks = _blocks_without_gradients(place)
    inside = [item for item in place.statements if any(first <= item.lineno <= last for first, last in blocks)]
    changed = {path for item in inside for path in _changed_by(item)}
    paths = (path for item in inside for path in _named_by(item) if path not in changed)
    return Asked(names=tuple(dict.fromkeys(paths))[:_NAMES], blocks=tuple(blocks))


def _changed_by(statement: ast.stmt) -> Iterator[AccessPath]:
    """The values that a statement changes in place: an update by hand runs without gradients on purpose."""
    if isinstance(statement, ast.AugAssign) and (path := path_of(statement.target)) is not None:
        yield path
    for expression in expressions_of(statement):
        for node in ast.walk(expression):
            if isinstance(node, ast.Attribute) and node.attr.endswith("_") and not node.attr.startswith("_"):
                path = path_of(node.value)
                if path is not None:
                    yield path[:-1] if path[-1] == ".data" else path


def _blocks_without_gradients(place: Place) -> list[Lines]:
    """The code in which gradients are off, as far as the finding shows it, or else the function around it."""
    found = place.everything
    blocks = [body_of(item) for item in found if isinstance(item, (ast.With, ast.AsyncWith, *FUNCTIONS))]
    for item in found:
        if not isinstance(item, COMPOUND) and "set_grad_enabled" in ast.unparse(item):
            around = function_around(place.statements, header_of(item))
            last = last_line(around) if around is not None else max(map(last_line, place.statements))
            blocks.append((last_line(item), last))
    if not blocks and place.function is not None:
        blocks.append(body_of(place.function))
    return blocks or [header_of(item) for item in found]


def _made_in_calls(place: Place) -> Asked:
    """The created part, and each call of the function that creates it."""
    beginning = () if place.function is None else (_beginning(place.function),)
    return Asked(names=_targets(place.flagged), blocks=beginning)


def _beginning(function: FunctionNode) -> Lines:
    """The first statement of a function that runs: docstrings and declarations do not."""
    return header_of(next(filter(_runs, function.body), function.body[-1]))


def _runs(statement: ast.stmt) -> bool:
    is_constant = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return not is_constant and not isinstance(statement, (ast.Global, ast.Nonlocal))


def _steps_and_passes(place: Place) -> Asked:
    others = [header_of(item) for item in place.everything[1:]]
    return Asked(blocks=tuple(others or [body_of(item) for item in place.everything]))


def _function_class(place: Place) -> Asked:
    """The class around it, and the code of its backward."""
    around = [item for item in place.statements if isinstance(item, ast.ClassDef) and encloses(item, place.header)]
    if not around:
        return Asked(names=(("",),))
    innermost = max(around, key=first_line)
    named = (item for item in innermost.body if isinstance(item, FUNCTIONS) and item.name == "backward")
    return Asked(names=((innermost.name,),), reach=next((body_of(item) for item in named), None))


def _kept_in(place: Place) -> Asked:
    """The names in the statement, its container, and the statements that empty the container."""
    if place.flagged is None:
        return Asked()
    container = _container(place.flagged)
    names = _named_by(place.flagged)
    if container is None:
        return Asked(names)
    return Asked(names, (container,), _resets(place, place.flagged, container))


def _own_object(place: Place) -> Asked:
    """The name of a method's first parameter, such as `self`."""
    given = place.function.args if place.function is not None else None
    parameters = [*given.posonlyargs, *given.args] if given is not None else []
    return Asked(names=((parameters[0].arg,),) if parameters and place.flagged is not None else ())


def _body(place: Place) -> Asked:
    return Asked(blocks=(body_of(place.flagged),) if isinstance(place.flagged, LOOPS) else ())


def _named(place: Place) -> Asked:
    return Asked(names=_named_by(place.flagged))


def _bound(place: Place) -> Asked:
    return Asked(names=_targets(place.flagged))


def _iterated(place: Place) -> Asked:
    """The names in the iterable of a loop."""
    return Asked(names=tuple(paths_in(place.flagged.iter)) if isinstance(place.flagged, LOOPS[:2]) else ())


def _called_on(place: Place) -> Asked:
    """The object of a method call statement, if it has a name."""
    call = place.flagged.value if isinstance(place.flagged, ast.Expr) else None
    owner = call.func.value if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else None
    path = path_of(owner) if owner is not None else None
    return Asked(names=() if path is None else (path,))


_ASKED: Mapping[str, Callable[[Place], Asked]] = {
    "training-under-no-grad": _gradients_off,
    "undetached-accumulation": _kept_in,
    "undetached-hidden-state": _kept_in,
    "inplace-on-leaf": _named,
    "inplace-on-saved-tensor": _named,
    "scheduler-before-optimizer": _named,
    "training-in-eval-mode": _named,
    "parameter-lost-by-move": _bound,
    "scheduler-never-stepped": _bound,
    "unregistered-module": _bound,
    "optimizer-of-old-tensor": _bound,
    "module-created-in-forward": _made_in_calls,
    "discarded-result": _called_on,
    "dropout-ignores-mode": _own_object,
    "backward-arity": _function_class,
    "lopsided-accumulation": _steps_and_passes,
    "average-without-buffers": _body,
    "exhausted-generator": _iterated,
}


# -- names


def _named_by(statement: ast.stmt | None) -> tuple[AccessPath, ...]:
    """All names in a statement."""
    expressions = expressions_of(statement) if statement is not None else []
    return tuple(dict.fromkeys(path for item in expressions for path in paths_in(item)))


def _targets(statement: ast.stmt | None) -> tuple[AccessPath, ...]:
    """The targets of an assignment."""
    targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
    return tuple(path for target in targets if isinstance(target, ast.expr) for path in paths_in(target))


# -- containers


def _container(statement: ast.stmt) -> AccessPath | None:
    """The container of a statement: the target of an assignment, or the object of a method call."""
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = list(statement.targets)
    elif isinstance(statement, (ast.AugAssign, ast.AnnAssign)):
        targets = [statement.target]
    paths = (longest_path(target) for target in (*targets, *_receivers(statement)))
    return next((path for path in paths if path is not None), None)


def _receivers(statement: ast.stmt) -> Iterator[ast.expr]:
    """The objects whose methods a statement calls."""
    for expression in expressions_of(statement):
        for node in ast.walk(expression):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                yield node.func.value


def _resets(place: Place, flagged: ast.stmt, container: AccessPath) -> tuple[Lines, ...]:
    """Statements that empty the container, in the innermost loop around the flagged one and in its function."""
    around = [item for item in place.statements if isinstance(item, (*LOOPS, *FUNCTIONS)) and has_inside(item, flagged)]
    innermost = max(around, key=first_line, default=None)
    if not isinstance(innermost, LOOPS):
        return ()
    inside = (item for item in place.statements if item is not flagged and has_inside(innermost, item))
    return tuple(header_of(item) for item in inside if _empties(item, container))


def _empties(statement: ast.stmt, container: AccessPath) -> bool:
    """Whether it is `x.clear()`, `del x[...]`, or binds `x` to a value that is not computed from it."""
    if isinstance(statement, ast.Delete):
        return any(isinstance(item, ast.Subscript) and path_of(item.value) == container for item in statement.targets)
    if isinstance(statement, ast.Assign):
        is_new = container not in set(paths_in(statement.value))
        return is_new and any(path_of(target) == container for target in statement.targets)
    call = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "clear":
        return path_of(call.func.value) == container
    return False
