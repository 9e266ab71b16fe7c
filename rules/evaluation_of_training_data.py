"""Evaluations that iterate over training data but divide by the length of other data."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import batch_sums, callees, held_out, uses, written
from torchlint.syntax import python_ast

_EVALUATES = LazyPattern(r"(?i)(^|_)(val(id(ate|ation)?)?|eval(uate|uation)?|test(ing)?)(_|$)")
"""Names of functions that evaluate a model."""
_TEST = LazyPattern(r"(?i)(^|[_.])test")
_VALIDATION = LazyPattern(r"(?i)(^|[_.])val")
_TRAINS = LazyPattern(r"(?i)train|trn|overfit|debug")


class WrongData(NamedTuple):
    """The loop at `site` iterates over `loader`, and its sum is divided at `division` by the length of `counted`."""

    site: python_ast.Site
    loader: str
    division: python_ast.Site
    counted: str


class WrongArgument(NamedTuple):
    """The call that computes `score` gets `loader` at `site`, and nothing reads `unread`, bound at `bound`."""

    site: python_ast.Site
    loader: str
    score: str
    unread: str
    bound: python_ast.Site


class WrongLoop(NamedTuple):
    """The loop of `function` at `site` iterates over `loader`, and nothing reads `unread`, bound at `bound`."""

    site: python_ast.Site
    loader: str
    function: str
    unread: str
    bound: python_ast.Site


class WrongIterator(NamedTuple):
    """The iterator at `site` is named `name`, but draws from `loader`."""

    site: python_ast.Site
    name: str
    loader: str


class EvaluationOfTrainingData(Rule):
    """An evaluation runs on training data instead of validation or test data.

    ## What it does
    Finds five kinds of evaluations, by the names of the loaders:

    - Loops that train nothing and iterate over a training loader. The code divides their sum by the length of
      validation or test data: `correct / len(val_set)`.
    - `test_accuracy = accuracy(model, train_loader)`, or `accuracy = validate(model, train_loader)`, where nothing
      reads the `test_loader` of the function, or the `self.test_loader` of the class.
    - `val_loss = loss_of(model, test_loader)`, where nothing reads the `val_loader`.
    - Functions such as `validate` with a loop over the training loader, where nothing reads the `val_loader` that the
      function or the object has. Its length and comparisons with None do not count as reads.
    - `test_iterator = iter(train_loader)`.

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
    triggers = ((b"tr",), (b"val", b"test", b"dev"), (b"len", b"load"), (b"torch",))

    def ask(self) -> Iterator[WrongData | WrongArgument | WrongLoop | WrongIterator]:
        yield from [] if self.model.is_test else self._wrong_iterators()
        yield from [] if self.model.is_test else self._wrong_arguments()
        yield from [] if self.model.is_test else self._wrong_loops()
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

    def _wrong_arguments(self) -> Iterator[WrongArgument]:
        """The scores of held-out data that a function computes on a training loader."""
        for statement in self.model.tree.of_type(ast.Assign, ast.Expr):
            call = statement.value
            if not isinstance(call, ast.Call) or _TRAINS.search(python_ast.called_name(call)):
                continue
            named = [(item, python_ast.dotted(item)) for item in python_ast.arguments(call)]
            score = _score(statement, call)
            loaders = [(item, name) for item, name in named if _is_data(name) and _is_other(name, score)]
            others = (name for item, name in named if (item, name) not in loaders)
            if len(loaders) != 1 or any(map(held_out.is_named_held_out, others)):
                continue
            unread = self._unread(statement, loaders[0][0]) if score else None
            if unread is not None:
                sites = python_ast.site_of(loaders[0][0]), python_ast.site_of(unread)
                yield WrongArgument(sites[0], loaders[0][1], score, _name(unread), sites[1])

    def _wrong_iterators(self) -> Iterator[WrongIterator]:
        """The iterators that are named after held-out data and draw training data."""
        for statement in self.model.tree.of_type(ast.Assign):
            name, value = python_ast.dotted(statement.targets[0]), statement.value
            if not held_out.is_named_held_out(name) or not isinstance(value, ast.Call):
                continue
            around = self.model.definitions.function_around(statement)
            loader = python_ast.dotted(_iterated(value))
            is_training = _is_data(loader) and held_out.is_named_training(loader)
            if is_training and not _TRAINS.search(around.name if around else ""):
                yield WrongIterator(python_ast.site_of(value), name, loader)

    def _wrong_loops(self) -> Iterator[WrongLoop]:
        """The loops over training data in functions that evaluate, where nothing reads the held-out data."""
        for loop, loader in self._evaluated().items():
            around = self.model.definitions.function_around(loop)
            if not isinstance(loop, (ast.For, ast.AsyncFor)) or around is None or not _is_evaluation(around.name):
                continue
            iterated = batch_sums.unwrapped(loop.iter)
            unread = self._unread(loop, iterated) if _is_data(python_ast.dotted(iterated)) else None
            if unread is not None:
                sites = python_ast.site_of(loop.iter), python_ast.site_of(unread)
                yield WrongLoop(sites[0], loader, around.name, _name(unread), sites[1])

    def _unread(self, statement: ast.AST, loader: ast.expr) -> ast.Name | ast.Attribute | ast.arg | None:
        """The only loader of held-out data beside a training loader, if nothing reads it."""
        if isinstance(loader, ast.Attribute):
            return self._unread_attribute(loader)
        scope = self.model.tree.scope_around(statement)
        nodes = list(python_ast.walk(scope))
        bound = [item for item in nodes if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store)]
        parameters = scope.args.args if isinstance(scope, python_ast.FUNCTIONS) else []
        own = python_ast.dotted(loader)
        held = {item.id: item for item in bound if _is_held_out(item.id) and item.id != own}
        given = {item.arg: item for item in parameters if _is_held_out(item.arg) and item.arg != own}
        found: list[ast.Name | ast.arg] = [*held.values(), *given.values()]
        names = (item for item in nodes if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Load))
        read = {item.id for item in names if not self._is_measured(item)}
        if (
            len(found) != 1
            or callees.reads_by_text(scope, self.model.definitions)
            or not {*held, *given}.isdisjoint(read)
        ):
            return None
        return found[0]

    def _unread_attribute(self, loader: ast.Attribute) -> ast.Attribute | None:
        """The only held-out loader of an object beside a training loader, if nothing reads it."""
        method = self.model.definitions.method_around(loader)
        if method is None or method.owner is None or python_ast.dotted(loader.value) != "self":
            return None
        nodes = (item for item in python_ast.walk(method.owner.node) if isinstance(item, ast.Attribute))
        own = [item for item in nodes if python_ast.dotted(item.value) == "self" and not written.is_load(item)]
        held = {item.attr: item for item in own if _is_held_out(item.attr) and item.attr != loader.attr}
        only = next(iter(held.values())) if len(held) == 1 else None
        found = uses.of_place(only, self.model) if only is not None else None
        read = [item for item in found or () if written.is_load(item) and not self._is_measured(item)]
        return only if found and not read else None

    def _is_measured(self, loader: ast.Name | ast.Attribute) -> bool:
        """Whether code asks only for the length of a loader, or whether there is one."""
        node: ast.AST = loader
        while isinstance(around := self.model.tree.parent(node), ast.Attribute) and around.attr == "dataset":
            node = around
        if isinstance(around, ast.Call):
            return python_ast.dotted(around.func) == "len"
        if isinstance(around, ast.Compare):
            return any(python_ast.is_literal(item, None) for item in around.comparators)
        is_test = isinstance(around, (ast.If, ast.IfExp)) and around.test is node
        return is_test or (isinstance(around, ast.UnaryOp) and isinstance(around.op, ast.Not))

    def _evaluated(self) -> dict[ast.AST, str]:
        """The loops over training data that do not train, with the names of these data."""
        loops = self.model.tree.of_type(ast.For, ast.AsyncFor)
        named = ((loop, batch_sums.loader_of(loop, self.model.definitions)) for loop in loops)
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

    def report_WrongIterator(self, found: WrongIterator) -> None:
        self.report(
            found.site,
            f"`{found.name}` draws its batches from `{found.loader}`",
            help="draw them from the validation or test loader",
        )

    def report_WrongLoop(self, found: WrongLoop) -> None:
        self.report(
            found.site,
            f"`{found.function}` iterates over `{found.loader}`, and nothing reads `{found.unread}`",
            related=[(found.bound, f"`{found.unread}` is bound here")],
            help=f"iterate over `{found.unread}`",
        )

    def report_WrongArgument(self, found: WrongArgument) -> None:
        self.report(
            found.site,
            f"`{found.score}` is computed on `{found.loader}`, and nothing reads `{found.unread}`",
            related=[(found.bound, f"`{found.unread}` is bound here")],
            help=f"pass `{found.unread}`",
        )


def _score(statement: ast.Assign | ast.Expr, call: ast.Call) -> str:
    """The held-out score that a call computes, by the name of its result or else of the function; otherwise empty."""
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    parts = target.elts if isinstance(target, ast.Tuple) else [target] if target is not None else []
    names = [python_ast.dotted(item) for item in parts]
    if any(_is_data(name) or _TRAINS.search(name) for name in names):
        return ""
    held = [name for name in names if held_out.is_named_held_out(name)]
    function = python_ast.called_name(call)
    return held[0] if held else f"{function}(...)" if _is_evaluation(function) else ""


def _is_evaluation(function: str) -> bool:
    return bool(_EVALUATES.search(function)) and not _TRAINS.search(function)


def _iterated(call: ast.Call) -> ast.expr | None:
    """The loader of `iter(loader)` or `loader.__iter__()`."""
    if isinstance(call.func, ast.Attribute) and call.func.attr == "__iter__":
        return call.func.value
    return call.args[0] if python_ast.dotted(call.func) == "iter" and len(call.args) == 1 else None


def _name(bound: ast.Name | ast.Attribute | ast.arg) -> str:
    return bound.arg if isinstance(bound, ast.arg) else python_ast.dotted(bound)


def _is_other(loader: str, score: str) -> bool:
    """Whether a loader has the training data, or the test data for a validation score."""
    is_test = bool(_TEST.search(loader)) and bool(_VALIDATION.search(score)) and not _TEST.search(score)
    return held_out.is_named_training(loader) or is_test


def _is_held_out(name: str) -> bool:
    return _is_data(name) and held_out.is_named_held_out(name)


def _is_data(name: str) -> bool:
    """Whether a name is that of a loader."""
    return "load" in name.rpartition(".")[2].lower()


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
