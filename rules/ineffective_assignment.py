"""Assignments that change neither an optimizer nor a parameter."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.index import FileIndex
from torchlint.model import definitions
from torchlint.model.queries import names
from torchlint.pytorch import api, naming
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.model.relations import provenance
    from torchlint.syntax.python_ast import Site

_OPTIONS = frozenset({"lr", "learning_rate", "weight_decay", "momentum", "betas"})
"""Options that an optimizer keeps in its groups."""
_WORDS = (b"state_dict", b"parameters", b"param_groups", b"requires_grad")
_EMPTY = frozenset({"dict", "OrderedDict"})


class Unread(NamedTuple):
    """The weights stored at `site` in `name` are never read: no network receives them."""

    site: Site
    name: str
    is_state: bool
    """Whether `name` is a dictionary of states."""


class UnreadOption(NamedTuple):
    """A PyTorch optimizer never reads the attribute assigned at `site`."""

    site: Site
    target: str


class LostInCopy(NamedTuple):
    """The store at `site` changes the dictionary returned by `state_dict()`, which is then discarded."""

    site: Site
    target: str
    is_option: bool


class NotLoaded(NamedTuple):
    """The statement at `site` passes weights to `state_dict`, which writes into them instead of loading them."""

    site: Site
    owner: str


class LostParameter(NamedTuple):
    """The loop variable `name` receives another unused tensor; the parameter does not change."""

    site: Site
    name: str


class IneffectiveAssignment(Rule):
    """An assignment meant for an optimizer or a parameter has no effect.

    ## What it does
    Finds six kinds of assignments that have no effect:

    - `optimizer.lr = x` on a PyTorch optimizer, where nothing reads it;
    - a store into `optimizer.state_dict()` or `model.state_dict()`, including one in a loop over its groups, or through
      a variable that nothing loads;
    - a loop over `parameters()` that reassigns its variable, `p = p - lr * p.grad` or `p = q` for the parameter `q` of
      another network, and never reads it again;
    - a variable that gets a weighted sum of the parameters of two networks, and that nothing reads;
    - `model.encoder.requires_grad = False` on a module;
    - `model.state_dict(weights)`, which does not load the weights.

    ## Why is this bad?
    Training does not do what the line says, and there is no error. An optimizer reads its learning rate from
    `param_groups`, so the schedule has no effect. `state_dict()` builds a new dictionary on each call. A new value for
    the loop variable updates, clips or moves no parameter. A module has no `requires_grad` flag, so its layers are
    still trained.

    ## Example
    ```python
    import torch

    def update(model, lr):
        with torch.no_grad():
            for p in model.parameters():
                p = p - lr * p.grad
    ```

    Use instead:
    ```python
    import torch

    def update(model, lr):
        with torch.no_grad():
            for p in model.parameters():
                p -= lr * p.grad
    ```

    ## References
    - [torch.optim](https://docs.pytorch.org/docs/stable/optim.html): "Per-parameter options"
    """

    code = "TL327"
    category = Category.CORRECTNESS
    triggers = (
        (
            *(name.encode() for name in sorted(_OPTIONS)),
            b"state_dict",
            b"parameters",
            b"param_groups",
            b"requires_grad",
        ),
    )

    def ask(self) -> Iterator[UnreadOption | LostInCopy | LostParameter | NotLoaded | Unread | provenance.FlagOfModule]:
        yield from self._unread()
        if b"requires_grad" in self.model.tree.source.code:
            yield from self.model.provenance.module_flags()
        for statement in self.model.tree.of_type(ast.Assign, ast.AugAssign):
            for target in statement.targets if isinstance(statement, ast.Assign) else (statement.target,):
                if isinstance(target, ast.Attribute) and self._is_unread(target.value, target.attr):
                    yield UnreadOption(python_ast.site_of(target), python_ast.dotted(target))
                elif isinstance(target, ast.Subscript):
                    yield from self._stored(statement, target)
                elif isinstance(target, ast.Name) and isinstance(statement, ast.Assign):
                    if self._is_lost(statement, target):
                        yield LostParameter(python_ast.site_of(target), target.id)
        for call in self.model.tree.of_type(ast.Call):
            name, given = python_ast.called_name(call), call.args
            option = given[1].value if len(given) == 3 and isinstance(given[1], ast.Constant) else None
            if name == "setattr" and isinstance(option, str) and self._is_unread(given[0], option):
                yield UnreadOption(python_ast.site_of(call), f"{python_ast.dotted(given[0])}.{option}")
            elif name == "state_dict" and self._is_meant_to_load(call):
                yield NotLoaded(python_ast.site_of(call), self.model.tree.code(call.func).removesuffix(".state_dict"))
            elif name == "update" and isinstance(call.func, ast.Attribute) and _is_state(call.func.value):
                yield LostInCopy(python_ast.site_of(call), self.model.tree.code(call.func.value), False)

    def _is_meant_to_load(self, call: ast.Call) -> bool:
        """Whether a statement passes one positional argument to `state_dict` of PyTorch, and discards the result."""
        is_plain = isinstance(call.func, ast.Attribute) and len(call.args) == 1 and not call.keywords
        if (
            not is_plain
            or not self.model.tree.stands_alone(call)
            or "dest" in self.model.tree.code(call.args[0]).lower()
        ):
            return False
        return not any("state_dict" in info.methods for info in self.model.definitions.classes.values())

    def _is_unread(self, optimizer: ast.expr, option: str) -> bool:
        """Whether an option is set on a PyTorch optimizer, and nothing in the file reads it there."""
        if option not in _OPTIONS or not self.model.provenance.is_optimizer(optimizer):
            return False
        owner = python_ast.dotted(optimizer).rpartition(".")[2]
        read = (node for node in self.model.tree.of_type(ast.Attribute) if isinstance(node.ctx, ast.Load))
        owners = {python_ast.dotted(node.value).rpartition(".")[2] for node in read if node.attr == option}
        return not any(item in ("", owner) or naming.looks_like_optimizer(item) for item in owners)

    def _stored(self, statement: ast.stmt, target: ast.Subscript) -> Iterator[UnreadOption | LostInCopy]:
        """Stores into a discarded dictionary, or into defaults that only new groups read."""
        inner, depth = target.value, 1
        while isinstance(inner, ast.Subscript):
            inner, depth = inner.value, depth + 1
        is_option = depth == 3 and isinstance(target.slice, ast.Constant) and isinstance(statement, ast.Assign)
        if _is_state(inner) and (is_option or (depth == 1 and isinstance(statement, ast.Assign))):
            yield LostInCopy(python_ast.site_of(target), self.model.tree.code(inner), is_option)
        elif depth == 1 and isinstance(inner, ast.Name) and (state := self._state_of_group(target, inner)) is not None:
            yield LostInCopy(python_ast.site_of(target), self.model.tree.code(state), True)
        elif isinstance(inner, ast.Attribute) and inner.attr == "defaults" and depth == 1:
            if (
                self.model.provenance.is_optimizer(inner.value)
                and b"add_param_group" not in self.model.tree.source.code
            ):
                yield UnreadOption(python_ast.site_of(target), self.model.tree.code(target))

    def _state_of_group(self, target: ast.Subscript, group: ast.Name) -> ast.expr | None:
        """The call of `state_dict()` over whose groups a loop iterates, if it sets one of their options."""
        is_option = isinstance(target.slice, ast.Constant) and target.slice.value in _OPTIONS
        groups = self.model.tree.iterated(group) if is_option else None
        return groups.value if isinstance(groups, ast.Subscript) and _is_state(groups.value) else None

    def _is_lost(self, statement: ast.Assign, name: ast.Name) -> bool:
        """Whether a loop over parameters assigns its variable a new tensor that nothing reads."""
        loop = self.model.tree.loop_around(statement)
        drawn = self.model.provenance.drawn
        if not isinstance(loop, ast.For) or not drawn.is_parameter(loop, name.id):
            return False
        if any(isinstance(item, python_ast.TRIES) for item in self.model.tree.ancestors(statement)):
            return False
        if name.id in python_ast.names_read(statement.value):
            is_value = self._makes_tensor(statement.value)
        else:
            is_value = self._is_other_weight(statement.value, loop)
        return is_value and not drawn.is_read_behind(statement, name.id, loop)

    def _is_other_weight(self, value: ast.expr, loop: ast.For) -> bool:
        """Whether an expression is, or certainly computes a tensor from, another parameter that a loop draws."""
        bases = {item.partition(".")[0] for item in python_ast.names_read(value)}
        if not any(self.model.provenance.drawn.is_parameter(loop, item) for item in bases):
            return False
        is_itself = isinstance(value, ast.Name) or (isinstance(value, ast.Attribute) and value.attr == "data")
        return is_itself or self._makes_tensor(value)

    def _makes_tensor(self, value: ast.expr) -> bool:
        """Whether an expression certainly computes a new tensor, and changes nothing in place."""
        calls = [item for item in python_ast.walk(value) if isinstance(item, ast.Call)]
        return isinstance(value, (ast.BinOp, ast.Call)) and all(map(self._is_pure, calls))

    def _is_pure(self, call: ast.Call) -> bool:
        name = python_ast.called_name(call)
        if name.endswith("_") or any(item.arg in ("out", "inplace") for item in call.keywords):
            return False
        if ".init." in self.model.definitions.named(call.func):
            return False  # also `xavier_uniform`, the old name
        if isinstance(call.func, ast.Attribute) and name in api.TENSOR_METHODS | api.OUT_OF_PLACE | api.MOVING:
            return True
        return self.model.definitions.named(call.func).startswith(("torch.", "math."))

    def _unread(self) -> Iterator[Unread]:
        for statement in self.model.tree.of_type(ast.Assign) if self._states or self._has_loops else ():
            target = statement.targets[0]
            function = self.model.definitions.function_around(statement)
            if function is None or len(statement.targets) > 1:
                continue
            if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
                if self._is_lost_entry(statement, target.value, function) and self._makes_tensor(statement.value):
                    yield Unread(python_ast.site_of(target), target.value.id, True)
            elif isinstance(target, ast.Name) and self._is_lost_average(statement, target, function):
                if self._makes_tensor(statement.value):
                    yield Unread(python_ast.site_of(target), target.id, False)

    @cached_property
    def _states(self) -> set[tuple[definitions.FunctionInfo | None, str]]:
        """The variables that are surely the result of `state_dict()`, each with its function."""
        found: set[tuple[definitions.FunctionInfo | None, str]] = set()
        for call in FileIndex.of(self.model.tree).calls_named("state_dict"):
            parent = self.model.tree.parent(call)
            if not call.args and isinstance(parent, ast.Assign):
                targets = (item for item in parent.targets if isinstance(item, ast.Name))
                found |= {(self.model.definitions.function_around(call), item.id) for item in targets}
        return found

    @cached_property
    def _has_loops(self) -> bool:
        return b"parameters" in self.model.tree.source.code and b"zip" in self.model.tree.source.code

    # -- dictionaries ------------------------------------------------------------------------------------

    def _is_lost_entry(self, statement: ast.Assign, name: ast.Name, function: definitions.FunctionInfo) -> bool:
        """Whether a new dictionary of states gets an entry in a loop, and nothing but such stores reads it."""
        if not any(isinstance(item, ast.For) for item in self.model.tree.ancestors(statement)):
            return False
        read = python_ast.names_read(statement.value)
        if not any((function, item) in self._states for item in read):
            return False
        value = names.only_value(name, self.model.definitions)
        is_empty = (isinstance(value, ast.Dict) and not value.keys) or (
            isinstance(value, ast.Call) and python_ast.called_name(value) in _EMPTY and not value.args
        )
        if value is None or not ((function, name.id) in self._states or is_empty):
            return False
        uses = [item for item in self._uses(name.id, function) if isinstance(item.ctx, ast.Load)]
        return all(self.model.definitions.function_around(item) is function for item in uses) and all(
            self._only_stores(item, name.id) for item in uses
        )

    def _uses(self, name: str, function: definitions.FunctionInfo) -> list[ast.Name]:
        nodes = python_ast.walk(function.node)
        return [item for item in nodes if isinstance(item, ast.Name) and item.id == name]

    def _only_stores(self, use: ast.Name, name: str) -> bool:
        """Whether a use belongs to a store into the same dictionary, or lists its keys for a loop."""
        statement = self.model.tree.statement(use)
        if isinstance(statement, ast.For):
            return self._lists_keys(use, statement.iter)
        target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
        is_store = isinstance(target, ast.Subscript) and python_ast.dotted(target.value) == name
        return is_store and isinstance(statement, ast.Assign) and self._makes_tensor(statement.value)

    def _lists_keys(self, use: ast.Name, iterable: ast.expr) -> bool:
        """`for key in state`, `for key in state.keys()`; entries by `items()` may be changed in place."""
        if isinstance(iterable, ast.Call) and isinstance(iterable.func, ast.Attribute) and not iterable.args:
            return iterable.func.value is use and iterable.func.attr == "keys"
        return iterable is use

    # -- variables ---------------------------------------------------------------------------------------

    def _is_lost_average(self, statement: ast.Assign, name: ast.Name, function: definitions.FunctionInfo) -> bool:
        """Whether a loop over two networks computes a weighted sum of their parameters that nothing reads."""
        loop = self.model.tree.loop_around(statement)
        if not isinstance(loop, ast.For) or not isinstance(statement.value, ast.BinOp) or len(loop.body) > 1:
            return False
        drawn = self.model.provenance.drawn
        if drawn.is_parameter(loop, name.id):
            return False
        bases = {item.partition(".")[0] for item in python_ast.names_read(statement.value)}
        if sum(drawn.is_parameter(loop, item) for item in bases) < 2:
            return False
        return all(item is name for item in self._uses(name.id, function))

    # -- report ----------------------------------------------------------------------------------------

    def report_NotLoaded(self, found: NotLoaded) -> None:
        self.report(
            found.site,
            f"`state_dict` loads nothing: `{found.owner}` keeps its weights, which overwrite those of the argument",
            help=f"call `{found.owner}.load_state_dict(...)`",
        )

    def report_UnreadOption(self, unread: UnreadOption) -> None:
        self.report(
            unread.site,
            f"`{unread.target}` is never read: the optimizer takes its options from `param_groups`",
            help="set it there: `for group in optimizer.param_groups: group[...] = ...`",
        )

    def report_LostInCopy(self, lost: LostInCopy) -> None:
        where = "`param_groups`" if lost.is_option else "the module, or load the dictionary again"
        self.report(
            lost.site,
            f"`{lost.target}` returns a new dictionary on each call: this value is lost",
            help=f"change {where}",
        )

    def report_LostParameter(self, lost: LostParameter) -> None:
        self.report(
            lost.site,
            f"`{lost.name}` now refers to another tensor, which nothing reads: the parameter does not change",
            help=f"change it in place under `torch.no_grad()`: `{lost.name}.copy_(...)`",
        )

    def report_Unread(self, unread: Unread) -> None:
        what = "no network loads" if unread.is_state else "nothing reads"
        self.report(
            unread.site,
            f"{what} `{unread.name}`: the weights do not change",
            help="pass it to `load_state_dict`" if unread.is_state else "copy it into the parameter: `p.copy_(...)`",
        )

    def report_FlagOfModule(self, flag: provenance.FlagOfModule) -> None:
        self.report(
            flag.site,
            f"`{flag.module}` is a module, which has no `requires_grad` flag: its parameters still require gradients",
            help=f"freeze them: `{flag.module}.requires_grad_(False)`",
        )


def _is_state(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and python_ast.called_name(node) == "state_dict" and not node.args
