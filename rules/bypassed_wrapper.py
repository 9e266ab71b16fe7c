"""Losses whose forward pass bypasses DistributedDataParallel or `torch.compile`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

from torchlint import Category, Confidence, Rule
from torchlint.index import FileIndex
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import definitions
from torchlint.model.queries import names, variables, written
from torchlint.syntax import python_ast
from torchlint.syntax.python_ast import Site

_DISTRIBUTED = frozenset({"DistributedDataParallel", "DDP"})
_INNER = frozenset({"module"})
_COMPILE = frozenset({"torch.compile"})
_BY_HAND = (b"no_sync", b"reduce_gradients", b"average_gradients", b"register_comm_hook", b"sync_grad")
"""Words in programs that may average gradients themselves."""
_GRADIENTS = LazyPattern(r"(?i)^(?:(?:main|flat|param)_)?grads?$|gradients?$|_grads$")
_OWN_PASS = ("", ".forward", ".__call__")
"""Endings of calls that run the forward pass of the wrapper itself: `ddp(x)`, `ddp.forward(x)`."""
_ASKING = frozenset("isinstance hasattr getattr type".split())
_CUTTING = frozenset("no_grad inference_mode detach item".split())


class Bypass(NamedTuple):
    """The forward pass at `site` is in the loss of `backward`, and bypasses the wrapper made at `wrapped`."""

    site: Site
    wrapped: Site
    backward: Site
    called: str
    wrapper: str
    is_compiled: bool


class BypassedWrapper(Rule):
    """A forward pass bypasses the model's wrapper: gradients are not averaged.

    ## What it does
    Finds calls of `ddp.module`, of its methods, or of the model itself after `ddp = DistributedDataParallel(model)`,
    whose result is part of a loss with its `backward` in the same function. Not reported if the loss also contains a
    call to the wrapper, or if the file may average gradients itself. Reported only with `--preview`: a method of a
    compiled module, which runs uncompiled.

    ## Why is this bad?
    DistributedDataParallel prepares the averaging of gradients in its own `forward`. If a pass skips it, each process
    keeps the gradients of its own data. The replicas drift apart without an error, and the processes train different
    models.

    ## Example
    ```python
    import torch.nn.functional as F
    from torch.nn.parallel import DistributedDataParallel

    def train(model, loader, optimizer):
        ddp = DistributedDataParallel(model)
        for x, y in loader:
            loss = F.cross_entropy(ddp.module(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    ```

    Use instead:
    ```python
    import torch.nn.functional as F
    from torch.nn.parallel import DistributedDataParallel

    def train(model, loader, optimizer):
        ddp = DistributedDataParallel(model)
        for x, y in loader:
            loss = F.cross_entropy(ddp(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    ```

    ## References
    - [DistributedDataParallel](https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html)
    """

    code = "TL611"
    category = Category.CORRECTNESS
    triggers = ((b"DistributedDataParallel", b"DDP", b"compile"), (b"backward",))

    def ask(self) -> Iterator[Bypass]:
        if self.model.is_test or not self._wrappers:
            return
        for call in self.model.tree.of_type(ast.Call):
            if python_ast.called_name(call) == "backward" and (
                function := self.model.definitions.function_around(call)
            ):
                yield from self._bypasses(call, function.node)

    @cached_property
    def _wrappers(self) -> list[tuple[str, str, ast.Call, bool]]:
        """The names of wrappers and of the wrapped modules, each with the call and whether it compiles."""
        found = []
        for node in self.model.tree.of_type(ast.Assign):
            made = node.value
            if (
                len(node.targets) == 1
                and isinstance(made, ast.Call)
                and (wrapper := python_ast.dotted(node.targets[0]))
            ):
                is_distributed = self._is_distributed(made.func)
                if (is_distributed or self.model.definitions.named(made.func) in _COMPILE) and made.args:
                    found.append((wrapper, python_ast.dotted(made.args[0]), made, not is_distributed))
        for test in self.model.tree.of_type(ast.Call):
            if python_ast.dotted(test.func) == "isinstance" and len(test.args) == 2 and python_ast.dotted(test.args[0]):
                if self._is_distributed(test.args[1]):
                    found.append((python_ast.dotted(test.args[0]), "", test, False))
        return found

    def _bypasses(self, backward: ast.Call, function: ast.AST) -> Iterator[Bypass]:
        """The forward passes that bypass a wrapper in the loss of a backward pass."""
        calls = self._calls_in_loss(backward, function)
        inner = self._inner_modules(function)
        seen = [item for item in self._wrappers if self._is_in_sight(item[0], item[2], backward)]
        for wrapper, wrapped, made, is_compiled in [*seen, *self._parameters(backward)]:
            if any(self._may_run(call, wrapper, function) for call in calls):
                continue
            if not is_compiled and self._may_average:
                continue
            for call in calls:
                name = _of_inner(self._name_of(call.func, function), inner)
                if is_compiled:
                    is_past = self._is_uncompiled(name, wrapper, function)
                else:
                    is_past = self._goes_past(name, wrapper, wrapped, made)
                is_own = "." not in wrapper and made in python_ast.walk(function)
                if is_past and call.args and (call.lineno > made.lineno or not is_own):
                    sites = [python_ast.site_of(node) for node in (call, made, backward)]
                    yield Bypass(sites[0], sites[1], sites[2], name, wrapper, is_compiled)
                    break

    @cached_property
    def _may_average(self) -> bool:
        """Whether the file may average gradients itself: by its words, or by `all_reduce` where it reads gradients."""
        if any(word in self.model.tree.source.code for word in _BY_HAND):
            return True
        calls = FileIndex.of(self.model.tree).calls_named("all_reduce")
        scopes = {self.model.tree.scope_around(call) for call in calls}
        nodes = (node for scope in scopes for node in python_ast.walk(scope))
        return any(
            isinstance(node, (ast.Name, ast.Attribute)) and _GRADIENTS.search(python_ast.last_name(node))
            for node in nodes
        )

    def _parameters(self, backward: ast.Call) -> Iterator[tuple[str, str, ast.Call | ast.arg, bool]]:
        """The parameters of a function that are wrappers: by their annotation, or in each call of the file."""
        function = self.model.definitions.function_around(backward)
        bound = self.model.definitions.names_assigned([function.node]) if function is not None else set[str]()
        for argument in definitions.all_parameters(function.node) if function is not None else ():
            if function is None or argument.arg in bound:
                continue
            if argument.annotation is not None and self._is_distributed(argument.annotation):
                yield argument.arg, "", argument, False
            elif (made := self._passed_in_all(function, argument.arg)) is not None:
                yield argument.arg, "", made, False

    def _passed_in_all(self, function: definitions.FunctionInfo, name: str) -> ast.Call | None:
        """The call that makes the wrapper which all calls of a function in the file pass for a parameter."""
        place = function.parameters.index(name) - int(function.is_method) if name in function.parameters else -1
        found: list[ast.Call | None] = []
        for call in FileIndex.of(self.model.tree).calls_named(function.name):
            given = python_ast.dotted(written.argument(call, place, name) or call) if place >= 0 else ""
            known = (made for wrapper, wrapped, made, is_compiled in self._wrappers
                     if wrapper == given and not is_compiled and made.args and made.lineno < call.lineno
                     and self._is_in_sight(wrapper, made, call))  # fmt: skip
            found.append(next(known, None))
        return found[0] if found and all(item is not None for item in found) else None

    def _is_distributed(self, node: ast.expr) -> bool:
        name = self.model.definitions.named(node)
        return name.startswith("torch.") and name.rpartition(".")[2] in _DISTRIBUTED

    def _may_run(self, call: ast.Call, wrapper: str, function: ast.AST) -> bool:
        """Whether a call runs the wrapper, itself or under another name, or a function that may do so."""
        is_test = python_ast.dotted(call.func) in _ASKING or bool(self._returned(call, function))
        if not is_test and any(python_ast.dotted(item) == wrapper for item in python_ast.arguments(call)):
            return True
        wrappers = {wrapper, *_other_names(wrapper, function)}
        passes = {name + ending for name in wrappers for ending in _OWN_PASS}
        helper = self._helper(call, function)
        inner = python_ast.walk(helper) if helper is not None else ()
        called = (call, *(node for node in inner if isinstance(node, ast.Call)))
        return any(python_ast.dotted(node.func) in passes for node in called)

    def _helper(self, call: ast.Call, function: ast.AST) -> ast.AST | None:
        """The function that a call runs: local, of the module, or a method of the same object."""
        known = self.model.definitions
        owner, _, name = python_ast.dotted(call.func).rpartition(".")
        method = known.method_around(call)
        if method is not None and method.owner is not None and owner == "self":
            found = method.owner.method(name)
        else:
            local = (node for node in python_ast.walk(function) if isinstance(node, python_ast.FUNCTIONS))
            nested = next((node for node in local if node is not function and node.name == name), None)
            if nested is not None and not owner:
                return nested
            found = known.function_named(name) if not owner else None
        return found.node if found is not None else None

    def _inner_modules(self, function: ast.AST) -> dict[str, str]:
        """The names that a function binds once to `ddp.module`, possibly under a condition, with `ddp.module`."""
        found: dict[str, list[str]] = {}
        for node in names.own_nodes(function):
            if isinstance(node, ast.Assign):
                value = node.value.body if isinstance(node.value, ast.IfExp) else node.value
                is_inner = isinstance(value, ast.Attribute) and value.attr in _INNER
                name = python_ast.dotted(value) if is_inner else self._returned(value, function)
                for target in node.targets:
                    found.setdefault(python_ast.dotted(target), []).append(name)
        return {name: bound[0] for name, bound in found.items() if len(bound) == 1 and bound[0] and name}

    def _name_of(self, called: ast.expr, function: ast.AST) -> str:
        """The name of a called function, also of a method of the module that a helper returns: `self.inner().loss`."""
        if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Call):
            owner = self._returned(called.value, function)
            return f"{owner}.{called.attr}" if owner else ""
        return python_ast.dotted(called)

    def _returned(self, call: ast.expr, function: ast.AST) -> str:
        """`ddp.module` if a helper of the program returns that, perhaps under a condition; otherwise empty."""
        helper = self._helper(call, function) if isinstance(call, ast.Call) else None
        if not isinstance(call, ast.Call) or not isinstance(helper, ast.FunctionDef):
            return ""
        results = [node.value for node in names.own_nodes(helper) if isinstance(node, ast.Return)]
        arms = [item.body if isinstance(item, ast.IfExp) else item for item in results]
        inner = {python_ast.dotted(item) for item in arms if isinstance(item, ast.Attribute) and item.attr in _INNER}
        owner, _, last = inner.pop().rpartition(".") if len(inner) == 1 else ("", "", "")
        parameters = [item.arg for item in helper.args.args]
        if owner in parameters and owner != "self":
            at = parameters.index(owner)
            owner = python_ast.dotted(call.args[at]) if at < len(call.args) else ""
        return f"{owner}.{last}" if owner else ""

    def _is_in_sight(self, wrapper: str, made: ast.Call, backward: ast.Call) -> bool:
        """Whether a name means the same wrapper where it is created and in the function of a backward pass."""
        known = self.model.definitions
        if "." not in wrapper:
            if known.function_around(made) is None and variables.is_parameter(wrapper, backward, known):
                return False
            return known.function_around(made) in (None, known.function_around(backward))
        first, second = known.method_around(made), known.method_around(backward)
        return first is not None and second is not None and first.owner is second.owner

    def _goes_past(self, name: str, wrapper: str, wrapped: str, made: ast.Call | ast.arg) -> bool:
        """Whether a call to a function of this name runs the module instead of its wrapper."""
        if name in (f"{wrapper}.module", f"{wrapper}.module.forward"):
            return True
        owner, _, method = name.rpartition(".")
        if owner == f"{wrapper}.module":
            return self._is_own(method)
        is_wrapped = name in (wrapped, f"{wrapped}.forward") and wrapped != wrapper
        return bool(wrapped) and is_wrapped and not self._is_bound_again(wrapped, made)

    def _is_bound_again(self, name: str, made: ast.Call | ast.arg) -> bool:
        """Whether a name may mean something else than where the wrapper was created."""
        function = self.model.definitions.function_around(made)
        nodes = self.model.tree.of_type(ast.Name, ast.Attribute)
        stores = (node for node in nodes if isinstance(node.ctx, ast.Store) and python_ast.dotted(node) == name)
        if "." in name:
            return sum(1 for _ in stores) > 1
        return any(
            node.lineno >= made.lineno for node in stores if self.model.definitions.function_around(node) is function
        )

    def _is_uncompiled(self, name: str, wrapper: str, function: ast.AST) -> bool:
        """Whether a call runs an uncompiled method, where nothing calls the compiled module."""
        owner, _, method = name.rpartition(".")
        around = self.model.tree.module if "." in wrapper else function
        called = (python_ast.dotted(node.func) for node in python_ast.walk(around) if isinstance(node, ast.Call))
        return owner == wrapper and bool(method) and wrapper not in called

    def _is_own(self, method: str) -> bool:
        """Whether a class of the file has a method of this name that computes something."""
        return any(method in info.methods for info in self.model.definitions.classes.values())

    def _calls_in_loss(self, backward: ast.Call, function: ast.AST) -> list[ast.Call]:
        """The calls that contribute to a loss in a function, found by following names."""
        assigned: dict[str, list[ast.expr]] = {}
        for node in names.own_nodes(function):
            if isinstance(node, (ast.Assign, ast.AugAssign)):
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    for item in target.elts if isinstance(target, ast.Tuple) else [target]:
                        assigned.setdefault(python_ast.dotted(item), []).append(node.value)
        pending: list[ast.AST] = [backward.func, *backward.args]
        seen, calls = set[ast.AST](), list[ast.Call]()
        while pending:
            node = pending.pop()
            if node in seen or self._is_cut(node):
                continue
            seen.add(node)
            if isinstance(node, ast.Call):
                calls.append(node)
            if isinstance(node, (ast.Name, ast.Attribute)):
                pending += assigned.get(python_ast.dotted(node), [])
            pending += python_ast.children(node)
        return [call for call in calls if call is not backward]

    def _is_cut(self, node: ast.AST) -> bool:
        """Whether an expression blocks gradients: `x.detach()`, or an enclosing block without gradients."""
        if isinstance(node, ast.Call):
            blocks = [item for item in self.model.tree.ancestors(node) if isinstance(item, ast.With)]
            contexts = [entered.context_expr for block in blocks for entered in block.items]
            called = [item for item in (node, *contexts) if isinstance(item, ast.Call)]
            return any(python_ast.called_name(item) in _CUTTING for item in called)
        return False

    # -- report ---------------------------------------------------------------------------------------

    def report_Bypass(self, bypass: Bypass) -> None:
        if bypass.is_compiled:
            message = f"`{bypass.called}` does not call the compiled module: it runs uncompiled"
            advice = f"compile the method, or move this into `forward` and call `{bypass.wrapper}`"
        else:
            message = (
                f"`{bypass.called}` bypasses `{bypass.wrapper}`: processes do not average the gradients of this loss"
            )
            advice = f"call `{bypass.wrapper}`, and move the code of the method into `forward`"
        self.report(
            bypass.site,
            message,
            related=[(bypass.wrapped, "the wrapper is made here"), (bypass.backward, "`backward` is called here")],
            help=advice,
            confidence=Confidence.LOW if bypass.is_compiled else Confidence.HIGH,
        )


def _of_inner(name: str, inner: dict[str, str]) -> str:
    """The full name of a call to a variable that is `ddp.module`, or to its method."""
    owner, dot, method = name.rpartition(".")
    return inner.get(name) or f"{inner.get(owner, owner)}{dot}{method}"


def _other_names(wrapper: str, function: ast.AST) -> set[str]:
    """The names that a function may bind to a wrapper, not to its module: `net = ddp if distributed else model`."""
    found = set[str]()
    for node in names.own_nodes(function):
        if isinstance(node, ast.Assign):
            arms = (node.value.body, node.value.orelse) if isinstance(node.value, ast.IfExp) else (node.value,)
            bound = {python_ast.dotted(arm) for arm in arms}
            if wrapper in bound and not any(f"{wrapper}.{inner}" in bound for inner in _INNER):
                found.update(map(python_ast.dotted, node.targets))
    return found
