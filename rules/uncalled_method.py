"""Training methods that are named but not called."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule, Safety, edits
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import events, utilities, values
from torchlint.pytorch import api, naming, table, triggers
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.index import FileIndex
    from torchlint.model.definitions import ClassInfo
    from torchlint.syntax.python_ast import Site

_UNMISTAKABLE = frozenset({"zero_grad", "backward", "unscale_"})
"""Names that only such methods have."""
_WITHOUT_ARGUMENTS = frozenset({"no_grad", "enable_grad", "inference_mode", "detect_anomaly"})
_STATE = LazyPattern(rb"\.state_dict\s*[,})]")
_CONSEQUENCES = {
    "step": "nothing is updated",
    "zero_grad": "no gradient is cleared",
    "backward": "no gradient is computed",
    "eval": "the mode does not change",
    "train": "the mode does not change",
    "unscale_": "gradients stay scaled",
    "update": "the scale does not change",
}


class Named(NamedTuple):
    """A statement names a method without calling it, and has no effect."""

    site: Site
    name: str
    takes_nothing: bool
    """Whether only the brackets are missing."""


class Unentered(NamedTuple):
    """A `with` receives a class of context managers instead of an instance."""

    site: Site
    name: str


class Saved(NamedTuple):
    """The method `state_dict` at `site` goes into a checkpoint instead of the state."""

    site: Site


class UncalledMethod(Rule):
    """A training method is named but not called: it does nothing.

    ## What it does
    Finds statements that consist only of `optimizer.step`, `optimizer.zero_grad`, `loss.backward`, `model.eval`,
    `model.train`, `scheduler.step`, `scaler.update` or `scaler.unscale_`. Also finds:

    - `with torch.no_grad:` and similar context managers without parentheses
    - `model.state_dict` without parentheses in a checkpoint, beside the state of another object or in `torch.save`

    ## Why is this bad?
    Without parentheses, the line does nothing, and Python prints no error. The optimizer never steps, gradients add up
    over all batches, or dropout stays on during evaluation. Only `with torch.no_grad:` raises an error.

    ## Example
    ```python
    import torch

    def train(model, loader, criterion):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step
    ```

    Use instead:
    ```python
    import torch

    def train(model, loader, criterion):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
    ```

    ## Fix safety
    The fix adds the parentheses. It is unsafe because training changes, which is its purpose. There is no fix if the
    method needs an argument: `step` of `LBFGS`, of `ReduceLROnPlateau` and of a gradient scaler. In a `with` statement
    the fix is safe, because without it the line raises an error.

    ## What verify shows
    `torchlint verify` confirms the finding if the run reaches the line.

    ## References
    - [torch.optim: Taking an optimization step](https://docs.pytorch.org/docs/stable/optim.html#taking-an-optimization-step)
    """

    code = "TL114"
    category = Category.CORRECTNESS
    triggers = (triggers.ACTING, (b"torch",))

    @classmethod
    def may_fire(cls, code: bytes) -> bool:
        """Whether a line ends in the name of such a method, or a `with` names a context manager without brackets."""
        patterns = _ends_in_method(), _unentered(), _STATE
        return any(pattern.search(code) is not None for pattern in patterns)

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        is_named = any(_names_method(item) for item in index.tree.of_type(ast.Expr))
        is_entered = any(_enters_class(item) for item in index.tree.of_type(ast.With, ast.AsyncWith))
        return is_named or is_entered or _STATE.search(index.code) is not None

    def ask(self) -> Iterator[Named | Unentered | Saved]:
        for trace in self.model.program.traces:
            for event in trace.of(events.Uncalled):
                if self._acts(event.owner, event.name) and not self._is_probe(event.site):
                    yield Named(event.site, event.name, self._takes_nothing(event))
        yield from self._contexts()
        for node in self.model.tree.of_type(ast.Attribute) if not self.model.is_test else ():
            if node.attr == "state_dict" and self._is_saved(node):
                yield Saved(python_ast.site_of(node))

    def _is_saved(self, method: ast.Attribute) -> bool:
        """Whether a method stands beside states in a dictionary or call, or in a dictionary for `torch.save`."""
        parent = self.model.tree.parent(method)
        if isinstance(parent, ast.Dict) and method in parent.values:
            call = self.model.tree.parent(parent)
            is_saved = isinstance(call, ast.Call) and self.model.definitions.named(call.func) == "torch.save"
            return is_saved or any(map(_is_state, parent.values))
        call = self.model.tree.parent(parent) if isinstance(parent, ast.keyword) else None
        return isinstance(call, ast.Call) and any(_is_state(item.value) for item in call.keywords)

    def _acts(self, owner: values.Value, name: str) -> bool:
        """Whether a value certainly has a method of this name with an effect, not a property."""
        if isinstance(owner, values.Phi):
            parts = list(values.meanings(owner))
            return bool(parts) and all(self._acts(item, name) for item in parts)
        if name in _methods_of(owner):
            return not _is_data(getattr(owner, "info", None), name)
        is_unknown = isinstance(owner, values.Unknown) and not utilities.is_utility(owner)
        return is_unknown and self._is_of_unknown(owner, name)

    def _is_of_unknown(self, owner: values.Value, name: str) -> bool:
        """Whether a name that only such a method has, or the object's name and other uses, identifies the method."""
        if name in _UNMISTAKABLE:
            return True
        if name == "step":
            return owner.has_use("zero_grad") or naming.looks_like_optimizer(owner.label)
        if name in ("eval", "train"):
            return owner.has_use(*(set(api.MODULE_EVIDENCE) - {name})) or bool(naming.MODULE.search(owner.label))
        return name == "update" and owner.has_use("unscale_", "scale")

    def _is_probe(self, site: Site) -> bool:
        """Whether the statement tests if such a method exists: `try: model.eval` with an `except`."""
        tree = self.model.tree
        statement = tree.statement(tree.node(site))
        around = tree.parent(statement)
        return isinstance(around, python_ast.TRIES) and statement in around.body and len(around.body) == 1

    def _takes_nothing(self, event: events.Uncalled) -> bool:
        owner = event.owner
        steps_for_others = (
            utilities.is_kind(owner, utilities.Kind.SCALER, utilities.Kind.ENGINE) and event.name != "update"
        )
        needs_more = event.name in ("unscale_", "manual_backward") or (event.name == "step" and self._needs_more(owner))
        return not (steps_for_others or needs_more)

    def _needs_more(self, owner: values.Value) -> bool:
        """Whether an object's `step` needs a closure, or a metric."""
        if isinstance(owner, values.Optimizer):
            return "LBFGS" in owner.name
        made = self.model.tree.node(owner.site) if utilities.is_kind(owner, utilities.Kind.SCHEDULER) else None
        return isinstance(made, ast.Call) and self.model.definitions.named(made.func).endswith("ReduceLROnPlateau")

    def _contexts(self) -> Iterator[Unentered]:
        definitions = self.model.definitions
        for statement in self.model.tree.of_type(ast.With, ast.AsyncWith):
            for item in statement.items:
                node = item.context_expr
                is_name = isinstance(node, (ast.Name, ast.Attribute))
                name = definitions.named(node) if is_name else ""
                if name in table.CONTEXTS:
                    yield Unentered(python_ast.site_of(node), name.rpartition(".")[2])

    # -- report ----------------------------------------------------------------------------------------

    def report_Named(self, named: Named) -> None:
        code = self.model.tree.code(named.site)
        self.report(
            named.site,
            f"`{code}` is not called: {_CONSEQUENCES.get(named.name, 'nothing happens')}",
            help="add the parentheses",
            fix=self._fix(named.site, "call the method", Safety.UNSAFE) if named.takes_nothing else None,
        )

    def report_Unentered(self, unentered: Unentered) -> None:
        is_enough = unentered.name in _WITHOUT_ARGUMENTS
        self.report(
            unentered.site,
            f"`{unentered.name}` is a class, and `with` needs an instance of it: the line raises an error",
            help="add the parentheses",
            fix=self._fix(unentered.site, "call it", Safety.SAFE) if is_enough else None,
        )

    def report_Saved(self, saved: Saved) -> None:
        self.report(
            saved.site,
            f"`{self.model.tree.code(saved.site)}` is not called: the checkpoint holds the method instead of the state",
            help="add the parentheses",
            fix=self._fix(saved.site, "call the method", Safety.UNSAFE),
        )

    def _fix(self, site: Site, message: str, safety: Safety) -> edits.Change | None:
        node = self.written(site)
        return edits.Change(message, [edits.Append(node, "()")], safety) if node is not None else None


@lru_cache
def _ends_in_method() -> re.Pattern[bytes]:
    methods = b"|".join(sorted(map(str.encode, table.ACTING_METHODS)))
    return re.compile(rb"\.\s*(?:%s)[ \t)\\]*(?:[;#\r\n]|\Z)" % methods)


@lru_cache
def _unentered() -> re.Pattern[bytes]:
    contexts = b"|".join(sorted({name.rpartition(".")[2].encode() for name in table.CONTEXTS}))
    return re.compile(rb"(?:%s)[ \t]*(?:[:,)\\]|as\b)" % contexts)


def _is_state(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and python_ast.called_name(value) == "state_dict" and not value.args


def _names_method(statement: ast.Expr) -> bool:
    """Whether a statement names a method with an effect, without calling it."""
    nodes = list(python_ast.walk(statement.value))
    called = {node.func for node in nodes if isinstance(node, ast.Call)}
    return any(
        isinstance(node, ast.Attribute) and node.attr in table.ACTING_METHODS and node not in called for node in nodes
    )


def _enters_class(statement: ast.With | ast.AsyncWith) -> bool:
    """Whether a `with` uses a context manager's class directly, by its name."""
    names = {name.rpartition(".")[2] for name in table.CONTEXTS}
    entered = (python_ast.dotted(item.context_expr) for item in statement.items)
    return any(name.rpartition(".")[2] in names for name in entered)


def _methods_of(owner: values.Value) -> Collection[str]:
    """The methods that a value certainly has."""
    if isinstance(owner, values.Tensor):
        return ("backward",)
    if isinstance(owner, values.Optimizer):
        return ("step", "zero_grad")
    if isinstance(owner, values.Module):
        return ("zero_grad", "train", "eval")
    if utilities.is_kind(owner, utilities.Kind.SCHEDULER):
        return ("step",)
    if utilities.is_kind(owner, utilities.Kind.SCALER):
        return ("step", "update", "unscale_")
    if utilities.is_kind(owner, utilities.Kind.ENGINE):
        return ("backward",) if owner.part("model") is None else ("backward", "step", "zero_grad")
    return ()


def _is_data(info: ClassInfo | None, name: str) -> bool:
    """Whether a class of the program has a property or another attribute of this name."""
    method = info.method(name) if info is not None else None
    if method is not None:
        return bool(method.decorators)
    return info is not None and bool(info.writers(name))
