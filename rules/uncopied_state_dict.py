"""State dictionaries stored by reference while their weights still change."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import starmap, takewhile
from typing import NamedTuple

from torchlint import Category, Rule, edits
from torchlint.index import FileIndex
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import definitions, events, values
from torchlint.model.queries import names, records
from torchlint.model.relations import held
from torchlint.pytorch import naming
from torchlint.syntax import python_ast
from torchlint.syntax.python_ast import (
    LOOPS,
    SCOPES,
    Site,
    arguments,
    called_name,
    dotted,
    names_read,
    site_of,
    walk,
    written_alike,
)

_SNAPSHOT = LazyPattern(r"(?i)(^|_)(best|snapshot|backup|saved|kept|initial|init|early|checkpoint)(_|$)|best")
"""Names for the state of a network at a certain time."""
_BEST = LazyPattern(r"(?i)best|early")
"""Names that belong to the best score so far."""
_FUNCTIONAL = frozenset({"higher", "functorch", "learn2learn", "torchopt"})
"""Packages of networks whose steps create new parameters."""
_ENDINGS = (ast.Break, ast.Return, ast.Raise)


class KeptNetwork(NamedTuple):
    """`place` becomes another name of `model` at `site`, in a loop that trains it, and is used at `use`."""

    site: Site
    place: str
    model: str
    use: Site


class KeptByObject(NamedTuple):
    """An object stores the `state_dict()` of `model` at `site`, and another method loads it at `use`."""

    site: Site
    place: str
    model: str
    use: Site


class UncopiedStateDict(Rule):
    """The best weights are stored without a copy while training continues.

    ## What it does
    Finds weights that are stored without a copy: a variable, an attribute, a list or a dictionary stores
    `model.state_dict()` in a training loop. After that, an optimizer steps. Later the code loads, saves or returns the
    stored weights. `dict(...)`, `OrderedDict(...)`, `copy.copy(...)`, `.copy()` and a comprehension without `.clone()`
    do not copy the weights either.

    Not reported:

    - weights that the code uses before the next step
    - weights that the code copies on the way
    - a new model in each iteration
    - `.cpu()` on the model or its weights, which copies them on a GPU

    ## Why is this bad?
    `state_dict()` returns the parameters themselves, not copies. Each later step changes the stored weights, so "the
    best weights" are those of the last step. Early stopping and the best checkpoint have no effect, and there is no
    error.

    ## Example
    ```python
    import torch

    def train(model, loader, criterion, epochs):
        optimizer = torch.optim.Adam(model.parameters())
        best_loss = float("inf")
        for epoch in range(epochs):
            total = 0.0
            for x, y in loader:
                optimizer.zero_grad()
                loss = criterion(model(x), y)
                loss.backward()
                optimizer.step()
                total += loss.item()
            if total < best_loss:
                best_loss = total
                best_weights = model.state_dict()
        model.load_state_dict(best_weights)
    ```

    Use instead:
    ```python
    import copy

    import torch

    def train(model, loader, criterion, epochs):
        optimizer = torch.optim.Adam(model.parameters())
        best_loss = float("inf")
        for epoch in range(epochs):
            total = 0.0
            for x, y in loader:
                optimizer.zero_grad()
                loss = criterion(model(x), y)
                loss.backward()
                optimizer.step()
                total += loss.item()
            if total < best_loss:
                best_loss = total
                best_weights = copy.deepcopy(model.state_dict())
        model.load_state_dict(best_weights)
    ```

    ## Fix safety
    The fix copies the weights at each place where the code stores them. It is unsafe because the code then loads or
    saves other weights. torchlint offers the fix only if the file imports `copy`. If the code also stores the state of
    an optimizer, you have to copy it by hand.

    ## What verify shows
    `torchlint verify` tracks the stored state. It confirms the finding if the program loads this state after steps and
    it shares the module's memory. It refutes the finding if the state has memory of its own.

    ## Known limits
    torchlint does not follow weights that the code assigns to a variable before `if score > best` and stores inside it.

    ## References
    - [Saving and loading models](https://docs.pytorch.org/tutorials/beginner/saving_loading_models.html)
    """

    code = "TL116"
    category = Category.CORRECTNESS
    triggers = ((b"state_dict", b"best", b".step("),)

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        return index.goes_backward or index.optimizes or index.has_word((b"load_state_dict",))

    def ask(self) -> Iterator[held.Reference | KeptNetwork | KeptByObject]:
        found = {kept.site: kept for kept in self.model.held.references.stale()}
        yield from found.values()
        if not self.model.is_test:
            yield from self._kept_networks()
            yield from (kept for kept in self._kept_by_objects() if kept.site not in found)

    # -- networks under a second name ----------------------------------------------------------------------

    def _kept_networks(self) -> Iterator[KeptNetwork]:
        seen: set[Site] = set()
        for site, value, loops in self.model.program.observations.bound_in_loops:
            target = self.model.tree.own_node(site)
            if site in seen or not isinstance(target, (ast.Name, ast.Attribute)):
                continue
            if _SNAPSHOT.search(_last(target)) or self._is_kept_with_record(target):
                use = self._use(target, value, loops)
                if use is not None:
                    seen.add(site)
                    yield KeptNetwork(
                        site, self.model.tree.code(target), self.model.tree.code(self._source(target) or target), use
                    )

    def _is_kept_with_record(self, target: ast.expr) -> bool:
        """Whether the assignment is next to one of a new best score: `if acc > top: top = acc`."""
        branch = self.model.tree.parent(self.model.tree.statement(target))
        found = records.comparisons(branch) if isinstance(branch, ast.If) else ()
        return any(records.is_replaced(item, self.model.tree.block(target)) for item in found)

    def _use(
        self, target: ast.Name | ast.Attribute, value: values.Value, loops: tuple[events.Loop, ...]
    ) -> Site | None:
        """The use of a network's second name after the loop that trains it."""
        source = self._source(target)
        shared = values.resolved(value)
        if isinstance(source, ast.Call) and shared.parents:
            shared = values.resolved(shared.parents[0])  # `copy.copy`
        loop = self._training_loop(shared, loops) if source is not None else None
        around = self.model.tree.own_node(loop.site) if loop is not None else None
        if (
            source is None
            or loop is None
            or not isinstance(around, LOOPS)
            or around not in self.model.tree.ancestors(target)
        ):
            return None
        if held.is_for_the_end(target, around, self.model.tree) or not self._is_conditional(target, around):
            return None
        if self.model.held.references.binds_anew(source, around) or self._is_copied_or_bound_again(target, around):
            return None
        return next(
            (site_of(item) for item in self._reads(target) if around not in self.model.tree.ancestors(item)), None
        )

    def _training_loop(self, value: values.Value, loops: tuple[events.Loop, ...]) -> events.Loop | None:
        traces = self.model.program.traces
        found = (self.model.held.references.training_loop(trace, loops, value) for trace in traces)
        return next((loop for loop in found if loop is not None), None)

    def _source(self, target: ast.expr) -> ast.expr | None:
        """`model` of `best_model = model` and of `best, best_model = score, model`, or a shallow copy of it."""
        value = names.bound_value(target, self.model.tree)
        is_copy = isinstance(value, ast.Call) and self.model.definitions.named(value.func) == "copy.copy"
        return value if isinstance(value, (ast.Name, ast.Attribute)) or is_copy else None

    def _is_conditional(self, target: ast.AST, loop: ast.AST) -> bool:
        """Whether a branch of the loop decides, and training continues after it."""
        inside = list(takewhile(lambda item: item is not loop, self.model.tree.ancestors(target)))
        ends = any(isinstance(item, _ENDINGS) for item in self.model.tree.block(target))
        return any(isinstance(item, ast.If) for item in inside) and not ends

    def _is_copied_or_bound_again(self, target: ast.expr, loop: ast.AST) -> bool:
        stores = [item for item in walk(loop) if isinstance(getattr(item, "ctx", None), ast.Store)]
        if any(item is not target and written_alike(item, target) for item in stores):
            return True
        reads = (item for item in walk(loop) if isinstance(item, type(target)) and dotted(item) == dotted(target))
        uses = (item for item in reads if isinstance(getattr(item, "ctx", None), ast.Load))
        calls = (item for use in uses for item in self.model.tree.ancestors(use) if isinstance(item, ast.Call))
        return next(calls, None) is not None  # saved immediately, or passed to code that may copy it

    def _reads(self, target: ast.Name | ast.Attribute) -> Iterator[ast.expr]:
        """The reads of a name after its statement in its function, or of an attribute anywhere in its class."""
        kind = ast.ClassDef if isinstance(target, ast.Attribute) else SCOPES
        scope = next(
            (item for item in self.model.tree.ancestors(target) if isinstance(item, kind)), self.model.tree.module
        )
        for item in walk(scope):
            if isinstance(item, type(target)) and isinstance(item.ctx, ast.Load) and dotted(item) == dotted(target):
                if isinstance(target, ast.Attribute) or item.lineno > target.lineno:
                    yield item

    # -- states in attributes ------------------------------------------------------------------------------

    def _kept_by_objects(self) -> Iterator[KeptByObject]:
        for node in self.model.tree.of_type(ast.Call):
            is_state_dict = called_name(node) == "state_dict" and not node.args
            method = self.model.definitions.method_around(node) if is_state_dict else None
            if method is not None and method.owner is not None and method.is_method:
                target = self._target(node)
                own = f"{method.parameters[0]}.{target.attr}" if target is not None else ""
                if target is None or dotted(target) != own or not self._is_while_training(target):
                    continue
                if self._steps(node, method.owner) or self._is_functional(node, method.owner):
                    continue
                if self._is_never_copied(target, node, method.owner):
                    yield from self._loaded(target, node, method.owner)

    def _steps(self, node: ast.Call, owner: definitions.ClassInfo) -> bool:
        """Whether an optimizer or a scheduler, which has no weights, returns a state dictionary."""
        stepped = node.func.value if isinstance(node.func, ast.Attribute) else None
        if stepped is None or naming.looks_like_optimizer(dotted(stepped).rpartition(".")[2]):
            return True
        calls = (item.func for item in walk(owner.node) if isinstance(item, ast.Call))
        steps = (item.value for item in calls if isinstance(item, ast.Attribute) and item.attr == "step")
        return any(written_alike(item, stepped) for item in steps)

    def _is_functional(self, node: ast.Call, owner: definitions.ClassInfo) -> bool:
        """Whether a package replaces a network whose steps create new parameters: `higher.patch.monkeypatch(net)`."""
        if not isinstance(node.func, ast.Attribute):
            return False
        model = node.func.value
        assigned = (
            item for item in walk(owner.node) if isinstance(item, ast.Assign) and isinstance(item.value, ast.Call)
        )
        made = (item.value for item in assigned if any(written_alike(target, model) for target in item.targets))
        calls = (item.func for item in made if isinstance(item, ast.Call))
        return any(self.model.definitions.named(call).partition(".")[0] in _FUNCTIONAL for call in calls)

    def _is_while_training(self, target: ast.Attribute) -> bool:
        """Whether optimizer steps follow.

        A comparison or a name mentions the best, or the file optimizes. Assignments such as `p.data = x` do not change
        the tensors of a state dictionary.
        """
        if _BEST.search(target.attr) or FileIndex.of(self.model.tree).optimizes:
            return True
        branches = (item for item in self.model.tree.ancestors(target) if isinstance(item, ast.If))
        return any(isinstance(node, ast.Compare) for branch in branches for node in walk(branch.test))

    def _target(self, node: ast.expr) -> ast.Attribute | None:
        """The attribute that stores a state dictionary, or a dictionary or shallow copy with it."""
        statement = self.model.tree.statement(node)
        target = statement.targets[0] if isinstance(statement, ast.Assign) and node in walk(statement.value) else None
        calls = (item for item in walk(statement) if isinstance(item, ast.Call))
        shares = all(called_name(item) in held.SHALLOW | {"state_dict"} for item in calls)
        kept = (item for item in walk(statement) if isinstance(item, ast.DictComp))
        return target if isinstance(target, ast.Attribute) and shares and all(map(held.shares_tensors, kept)) else None

    def _is_never_copied(self, target: ast.Attribute, node: ast.Call, owner: definitions.ClassInfo) -> bool:
        """Whether the attribute is only ever None or this, and its class only loads it or checks that it exists."""
        for item in walk(owner.node):
            if not isinstance(item, ast.Attribute) or item.attr != target.attr or item is target:
                continue
            if isinstance(item.ctx, ast.Store):
                value = getattr(self.model.tree.parent(item), "value", None)
                beside = isinstance(self.model.tree.parent(item), ast.Tuple)
                if not beside and not (isinstance(value, ast.Constant) or _is_empty(value)):
                    return False
            elif not self._only_loads(item):
                return False
        return not any(called_name(call) in held.DEEP for call in walk(node.func) if isinstance(call, ast.Call))

    def _only_loads(self, read: ast.expr) -> bool:
        node: ast.AST | None = self.model.tree.parent(read)
        while isinstance(node, ast.Subscript):
            node = self.model.tree.parent(node)
        if isinstance(node, (ast.Compare, ast.If, ast.IfExp, ast.UnaryOp, ast.BoolOp, ast.Return)):
            return not isinstance(node, ast.Return)
        return isinstance(node, ast.Call) and called_name(node) == "load_state_dict"

    def _loaded(self, target: ast.Attribute, node: ast.Call, owner: definitions.ClassInfo) -> Iterator[KeptByObject]:
        """The place in another method that loads an attribute's weights into their own network."""
        assert isinstance(node.func, ast.Attribute)
        model, method = node.func.value, self.model.definitions.method_around(node)
        for call in walk(owner.node):
            if not isinstance(call, ast.Call) or called_name(call) != "load_state_dict":
                continue
            given = [item for item in arguments(call) if dotted(target) in names_read(item)]
            loaded = call.func.value if isinstance(call.func, ast.Attribute) else None
            is_other = self.model.definitions.method_around(call) is not method
            if given and is_other and loaded is not None and self._is_same(model, loaded, owner):
                yield KeptByObject(site_of(node), dotted(target), self.model.tree.code(model), site_of(call))
                return

    def _is_same(self, model: ast.expr, loaded: ast.expr, owner: definitions.ClassInfo) -> bool:
        """Whether two methods refer to one network: by one name, or by the parameter that an attribute stores."""
        if not dotted(model) or dotted(model).partition(".")[2] != dotted(loaded).partition(".")[2]:
            return dotted(loaded).startswith("self.") and self._keeps(dotted(loaded)[5:], model, owner)
        return written_alike(model, loaded)

    def _keeps(self, name: str, model: ast.expr, owner: definitions.ClassInfo) -> bool:
        """Whether a class assigns `model` to its attribute of a name, and nothing else."""
        stores = [
            item
            for item in walk(owner.node)
            if isinstance(item, ast.Attribute) and item.attr == name and isinstance(item.ctx, ast.Store)
        ]
        value = getattr(self.model.tree.parent(stores[0]), "value", None) if len(stores) == 1 else None
        return isinstance(value, ast.Name) and isinstance(model, ast.Name) and value.id == model.id

    def report_Reference(self, kept: held.Reference) -> None:
        self.report(
            kept.site,
            f"`{kept.place}` references the parameters of `{kept.model}`, not a copy: later steps change them",
            related=[(kept.use, f"the weights of the last step are {kept.verb} here")],
            help=f"store `copy.deepcopy({kept.model}.state_dict())`",
            fix=self._fix((kept.site, *kept.others)),
        )

    def report_KeptNetwork(self, kept: KeptNetwork) -> None:
        self.report(
            kept.site,
            f"`{kept.place}` is `{kept.model}` itself, not a copy: later steps change it",
            related=[(kept.use, "this is the network after the last step")],
            help=f"store `copy.deepcopy({kept.model})`",
        )

    def report_KeptByObject(self, kept: KeptByObject) -> None:
        self.report(
            kept.site,
            f"`{kept.place}` references the parameters of `{kept.model}`, not a copy: later steps change them",
            related=[(kept.use, "this loads the network's current weights")],
            help=f"store `copy.deepcopy({kept.model}.state_dict())`",
        )

    def _fix(self, sites: tuple[python_ast.Site, ...]) -> edits.Change | None:
        """A copy at every store into the place, since the others would otherwise change too."""
        calls = [self.model.tree.node(site) for site in sites]
        written = [node for node in map(self.written, sites) if node is not None]
        for name in ("copy.deepcopy", "deepcopy"):
            is_imported = self.model.definitions.is_only_imported(name.partition(".")[0])
            means = {self.model.definitions.qualified(name, call) for call in calls}
            if is_imported and means == {"copy.deepcopy"} and len(written) == len(sites):
                copies = [f"{name}({self.model.tree.code(site)})" for site in sites]
                return edits.Change(
                    "store a deep copy", list(starmap(edits.Replace, zip(written, copies, strict=True)))
                )
        return None


def _last(target: ast.Name | ast.Attribute) -> str:
    return target.id if isinstance(target, ast.Name) else target.attr


def _is_empty(value: ast.expr | None) -> bool:
    is_made = isinstance(value, ast.Call) and called_name(value) in ("dict", "OrderedDict") and not arguments(value)
    return is_made or (isinstance(value, ast.Dict) and not value.keys)
