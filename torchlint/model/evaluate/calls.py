"""Calls: of functions, classes and modules, each by the part that knows the callee."""

from __future__ import annotations

import ast

from torchlint.model.evaluate.arguments import Arguments
from torchlint.model.evaluate.part import Part
from torchlint.model.events import Branch, Call, Fresh, MayClear
from torchlint.model.utilities import Kind, RecordClass, is_kind
from torchlint.model.values import (
    FILLED,
    Attribute,
    CallResult,
    Class,
    Container,
    Context,
    Element,
    External,
    Function,
    Generator,
    Instance,
    Iteration,
    List,
    Module,
    Optimizer,
    Parameters,
    Phi,
    Plain,
    SourceModule,
    Tensor,
    Tuple,
    Unknown,
    UnknownObject,
    Value,
    inputs_of,
    meanings,
    owner_label,
    resolved,
)
from torchlint.pytorch import api, naming
from torchlint.syntax.python_ast import placed_as, site_of

MAX_CALLEES = 8
"""Alternatives that one call is followed into."""


class Calls(Part):
    """Evaluates calls."""

    def evaluate(self, node: ast.Call) -> Value:
        """The value of a call expression."""
        func = node.func
        if isinstance(func, ast.Attribute):
            receiver = self.expressions.value(func.value)
            arguments = self.arguments(node)
            if isinstance(receiver, SourceModule):
                found = self.names.member(receiver, func.attr, node)
                if found is not None:
                    return self.call(found, arguments, node)
            if isinstance(receiver, External):
                if self._is_class_of_torch(receiver.name) and self.methods.has_handler(func.attr) and node.args:
                    return self._call_by_class(func, arguments, node)
                return self.externals.call(f"{receiver.name}.{func.attr}", arguments, node)
            if isinstance(receiver, Class):
                return self._class_method(receiver, func.attr, arguments, node)
            return self.methods.call(receiver, func.attr, arguments, node)
        callee = self.expressions.value(func)
        if isinstance(func, (ast.Name, ast.Call)) and (method := self._bound_method(callee)) is not None:
            return self._call_bound(method, node)
        return self.call(callee, self.arguments(node), node)

    def _is_class_of_torch(self, name: str) -> bool:
        return api.package(name) == "torch" and naming.is_class_name(name.rpartition(".")[2])

    def _call_by_class(self, func: ast.Attribute, arguments: Arguments, node: ast.Call) -> Value:
        """`torch.optim.Optimizer.zero_grad(optimizer)`, which is `optimizer.zero_grad()`."""
        first, *others = node.args
        call = placed_as(node, ast.Call(ast.Attribute(first, func.attr), others, node.keywords))
        rest = Arguments(arguments.positional[1:], arguments.keywords, arguments.starred)
        receiver = arguments.positional[0] if arguments.positional else self.expressions.value(first)
        return self.methods.call(receiver, func.attr, rest, call)

    def _bound_method(self, callee: Value) -> Unknown | None:
        """A method of PyTorch that a name was bound to, `step = optimizer.step`, or `getattr(optimizer, "step")`."""
        found = resolved(callee)
        if isinstance(found, Attribute) and self.methods.has_handler(found.label):
            return found
        return None

    def _call_bound(self, method: Unknown, node: ast.Call) -> Value:
        """The result of `step()`, which is `optimizer.step()`."""
        written = self.own.tree.node(method.site)
        taken = written.args[0] if isinstance(written, ast.Call) and written.args else node.func
        owner = written.value if isinstance(written, ast.Attribute) else taken
        call = ast.Call(ast.Attribute(owner, method.label), node.args, node.keywords)
        return self.methods.call(method.parents[0], method.label, self.arguments(node), placed_as(node, call))

    def arguments(self, node: ast.Call) -> Arguments:
        """The values that a call is given."""
        positional: list[Value] = []
        keywords: dict[str, Value] = {}
        starred: list[Value] = []
        for item in node.args:
            if not isinstance(item, ast.Starred):
                (starred or positional).append(self.expressions.value(item))
                continue
            value = self.expressions.value(item.value)
            inner = resolved(value)
            if isinstance(inner, (List, Tuple)) and not inner.unsure:
                positional.extend(inner.parents)
            else:
                starred.append(value)
        for keyword in node.keywords:
            value = self.expressions.value(keyword.value)
            if keyword.arg is not None:
                keywords[keyword.arg] = value
                continue
            if not self._add_options(keywords, list(inputs_of(value)), node):
                starred.append(value)
        return Arguments(positional, keywords, starred)

    def _add_options(self, keywords: dict[str, Value], given: list[Value], node: ast.Call) -> bool:
        """Add to the keywords what `**given` surely gives, one of several dictionaries; whether that is all."""
        found = [item for item in given if isinstance(item, Container)]
        if len(found) < len(given):
            return False
        options = [item.known_options for item in found]
        shared = [name for name in options[0] if all(name in item for item in options)]
        keywords.update((name, self.state.phi(node, [item[name] for item in options])) for name in shared)
        return not any(item.parents for item in found) and all(len(item) == len(shared) for item in options)

    def call(self, callee: Value, arguments: Arguments, node: ast.Call) -> Value:
        """The result of calling a value."""
        callee = resolved(callee)
        if isinstance(callee, RecordClass) and (record := self.containers.record(callee, arguments, node)) is not None:
            return record
        if isinstance(callee, External):
            return self.externals.call(callee.name, arguments, node)
        if isinstance(callee, Function):
            return self._call_function(callee, arguments, node)
        if isinstance(callee, Class):
            return self._instantiate(callee, arguments, node)
        if isinstance(callee, Module):
            return self.modules.call(callee, arguments, node)
        if isinstance(callee, Instance):
            return self._call_instance(callee, arguments, node)
        if isinstance(callee, Context):
            return self._decorate(callee, arguments, node)
        if isinstance(callee, Phi):
            return self._call_any(callee, arguments, node)
        return self._call_unknown(callee, arguments, node)

    def _call_function(self, callee: Function, arguments: Arguments, node: ast.Call) -> Value:
        decorated = self.decorators.call(callee, arguments, node)
        if decorated is not None:
            return decorated
        is_any = callee.receiver is not None and (callee.info.is_abstract or self.classes.is_template(callee.receiver))
        is_open = is_any and callee.info.is_hook
        if self.functions.can_inline(callee.info) and not is_open and self.functions.takes(callee, arguments):
            return self.functions.inline(callee, arguments, node)
        handed = arguments.all() if callee.receiver is None else (callee.receiver, *arguments.all())
        return self.unresolved(callee, callee.info.name, handed, node)

    def _class_method(self, receiver: Class, name: str, arguments: Arguments, node: ast.Call) -> Value:
        """`Base.method(self, ...)`, a static or a class method."""
        method = receiver.info.method(name)
        if method is None:
            return self.unresolved(receiver, name, arguments.all(), node)
        bound = receiver if method.has_decorator("classmethod") else None
        return self._call_function(
            self.functions.bound(method, bound, self.functions.decorated_mode(method)),
            arguments,
            node,
        )

    def _instantiate(self, callee: Class, arguments: Arguments, node: ast.Call) -> Value:
        made = self.classes.instantiate(callee.info, arguments, node)
        if isinstance(made, (Optimizer, Module)):
            self.state.emit(Fresh(site_of(node), made))
        return made

    def _call_instance(self, callee: Instance, arguments: Arguments, node: ast.Call) -> Value:
        method = callee.info.method("__call__")
        if method is None:
            return self.unresolved(callee, callee.info.name, (callee, *arguments.all()), node)
        return self._call_function(
            self.functions.bound(method, callee, self.functions.decorated_mode(method)),
            arguments,
            node,
        )

    def _decorate(self, callee: Context, arguments: Arguments, node: ast.Call) -> Value:
        """`torch.no_grad()(function)`."""
        first = resolved(arguments.positional[0]) if arguments.positional else None
        if isinstance(first, Function):
            return Function(first.info, first.frame, first.receiver, callee.mode)
        if isinstance(first, Module):
            return self.state.stamp(CallResult(node, (first,), "", callee, self.state.mode))
        return first if first is not None else Plain(node)

    def _call_any(self, callee: Phi, arguments: Arguments, node: ast.Call) -> Value:
        """One of several callees: where all are modules, functions or classes of the program, else unknown."""
        callees = self.alternatives(callee)
        alike = any(all(isinstance(item, kind) for item in callees) for kind in (Module, Function, Class))
        if callees and alike:
            return self.call_each(callees, arguments, node)
        return self._call_unknown(callee, arguments, node)

    def alternatives(self, value: Phi) -> list[Value]:
        """What a value may be, but for None; empty where that is too much to be followed."""
        found = list(meanings(value))
        return found if len(found) <= MAX_CALLEES else []

    def call_each(self, callees: list[Value], arguments: Arguments, node: ast.Call) -> Value:
        """One callee or another runs: alternatives, like the arms of an `if`."""
        branch = Branch(site_of(node), [[] for _ in callees])
        results: list[Value] = []
        for number, callee in enumerate(callees):
            with self.state.arm(branch, number):
                results.append(self.call(callee, arguments, node))
        self.state.items.append(branch)
        return self.state.phi(node, results, [(branch, number) for number in range(len(results))])

    def _call_unknown(self, callee: Value, arguments: Arguments, node: ast.Call) -> Value:
        if isinstance(callee, (Plain, Container, Parameters)):
            return self.state.stamp(CallResult(node, arguments.all(), "", callee, self.state.mode))
        model = callee.part("model") if is_kind(callee, Kind.ENGINE) else None
        if model is not None:
            return self.call(model, arguments, node)
        if isinstance(callee, Unknown) and self._of_module(callee):
            return self.modules.result(callee, arguments, node)
        return self.unresolved(callee, owner_label(callee), (*_owner_by_name(callee), *arguments.all()), node)

    def _of_module(self, callee: Value) -> bool:
        """An attribute of a module that is no method, or an element of one: a submodule."""
        while isinstance(callee, (Attribute, Element, Iteration)) and callee.parents:
            callee = resolved(callee.parents[0])
        return isinstance(callee, Module)

    def unresolved(self, callee: Value, name: str, handed: tuple[Value, ...], node: ast.Call) -> Value:
        """The result of a call that this module does not define: it may do anything to what it is handed."""
        kind = UnknownObject if naming.is_class_name(name) else CallResult
        result = self.state.stamp(kind(node, handed, "", callee, self.state.mode))
        for item in (part for value in handed for part in inputs_of(value)):
            if isinstance(item, Container) and not isinstance(item, (Tuple, Generator)):
                item.used_as(FILLED)
        self.state.emit(Call(site_of(node), result))
        objects = tuple(item for item in handed if not isinstance(resolved(item), (Plain, Tensor, External, Function)))
        if objects and not self._is_bystander(handed[0], node):
            receiver = handed[0] if isinstance(node.func, ast.Attribute) and not isinstance(callee, External) else None
            self.state.emit(MayClear(site_of(node), name, objects, receiver))
        return result

    def _is_bystander(self, first: Value, node: ast.Call) -> bool:
        """A method of a logger, meter, scheduler or accelerator: none of them clears gradients."""
        if not isinstance(node.func, ast.Attribute):
            return False
        owner = resolved(first)
        if isinstance(owner, Phi):
            owners = self.alternatives(owner)
            return bool(owners) and all(self._is_bystander(item, node) for item in owners)
        if is_kind(owner, Kind.ENGINE, Kind.SCALER, Kind.SCHEDULER):
            return True
        label = owner_label(owner)
        return isinstance(owner, Unknown) and bool(naming.BYSTANDER.search(label) or naming.ENGINE.search(label))


def _owner_by_name(callee: Value) -> tuple[Value, ...]:
    """The object of a method whose name is a value, which may be any: `getattr(optimizer, name)`."""
    is_taken = isinstance(callee, CallResult) and callee.label == "getattr"
    return callee.parents[:1] if is_taken and not isinstance(callee.parents[0], External) else ()
