"""Calls of functions, classes and modules: PyTorch's own by what is known of them, local ones in place."""

from __future__ import annotations

import ast

from torchlint.model.definitions import ClassInfo
from torchlint.model.evaluate.builtin_calls import BuiltinCalls
from torchlint.model.evaluate.externals import first_argument
from torchlint.model.evaluate.inlining import Arguments, Forward
from torchlint.model.evaluate.training import owner_label
from torchlint.model.events import Branch, Compute, Fresh
from torchlint.model.values import (
    Class,
    Container,
    Context,
    External,
    Function,
    Instance,
    Module,
    Optimizer,
    Parameters,
    Phi,
    Plain,
    Tensor,
    Unknown,
    Value,
    inputs_of,
    resolved,
)
from torchlint.syntax.python_ast import site_of

MAX_CALLEES = 8
"""Alternatives that one call is followed into."""


class Calls(BuiltinCalls):
    """Evaluates call expressions."""

    def call(self, node: ast.Call) -> Value:
        func = node.func
        if isinstance(func, ast.Attribute):
            receiver = self.value(func.value)
            arguments = self._arguments(node)
            if isinstance(receiver, External):
                return self.call_external(f"{receiver.name}.{func.attr}", arguments, node)
            if isinstance(receiver, Class):
                return self._class_method(receiver, func.attr, arguments, node)
            return self.call_method(receiver, func.attr, arguments, node)
        callee = self.value(func)
        return self.call_value(callee, self._arguments(node), node)

    def _arguments(self, node: ast.Call) -> Arguments:
        positional: list[Value] = []
        keywords: dict[str, Value] = {}
        starred: list[Value] = []
        for item in node.args:
            if not isinstance(item, ast.Starred):
                positional.append(self.value(item))
                continue
            value = self.value(item.value)
            inner = resolved(value)
            if isinstance(inner, Container) and inner.kind in ("list", "tuple"):
                positional.extend(inner.parents)
            else:
                starred.append(value)
        for keyword in node.keywords:
            value = self.value(keyword.value)
            if keyword.arg is not None:
                keywords[keyword.arg] = value
                continue
            inner = resolved(value)
            if isinstance(inner, Container):
                keywords.update(inner.known_options)
            if not isinstance(inner, Container) or inner.parents:
                starred.append(value)
        return Arguments(positional, keywords, starred)

    def call_value(self, callee: Value, arguments: Arguments, node: ast.Call) -> Value:
        callee = resolved(callee)
        if isinstance(callee, External):
            return self.call_external(callee.name, arguments, node)
        if isinstance(callee, Function):
            return self._call_function(callee, arguments, node)
        if isinstance(callee, Class):
            return self._instantiate(callee, arguments, node)
        if isinstance(callee, Module):
            return self._forward(callee, arguments, node)
        if isinstance(callee, Instance):
            return self._call_instance(callee, arguments, node)
        if isinstance(callee, Context):
            return self._decorate(callee, arguments, node)
        if isinstance(callee, Phi):
            return self._call_any(callee, arguments, node)
        return self._call_unknown(callee, arguments, node)

    def _call_function(self, callee: Function, arguments: Arguments, node: ast.Call) -> Value:
        if self.can_inline(callee.info):
            return self.inline(callee, arguments, node)
        handed = arguments.all() if callee.receiver is None else (callee.receiver, *arguments.all())
        return self.unresolved(callee, callee.info.name, handed, node)

    def _class_method(self, receiver: Class, name: str, arguments: Arguments, node: ast.Call) -> Value:
        """`Base.method(self, ...)`, a static or a class method."""
        method = self.definitions.method(receiver.info, name)
        if method is None:
            return self.unresolved(receiver, name, arguments.all(), node)
        bound = receiver if method.has_decorator("classmethod") else None
        return self._call_function(
            Function(method, self.module_frame, bound, self.decorated_mode(method)), arguments, node
        )

    def _instantiate(self, callee: Class, arguments: Arguments, node: ast.Call) -> Value:
        made = self.make(callee.info, arguments, node)
        if isinstance(made, (Optimizer, Module)):
            self.emit(Fresh(site_of(node), made))
        return made

    def _call_instance(self, callee: Instance, arguments: Arguments, node: ast.Call) -> Value:
        method = self.definitions.method(callee.info, "__call__")
        if method is None:
            return self.unresolved(callee, callee.info.name, (callee, *arguments.all()), node)
        return self._call_function(
            Function(method, self.module_frame, callee, self.decorated_mode(method)), arguments, node
        )

    def _decorate(self, callee: Context, arguments: Arguments, node: ast.Call) -> Value:
        """`torch.no_grad()(function)`."""
        first = resolved(arguments.positional[0]) if arguments.positional else None
        if isinstance(first, Function):
            return Function(first.info, first.frame, first.receiver, callee.mode)
        return first if first is not None else Plain(node)

    def _call_any(self, callee: Phi, arguments: Arguments, node: ast.Call) -> Value:
        """One of several callees: where all are modules or all are functions of this module, else unknown."""
        inputs = [item for item in inputs_of(callee) if not (isinstance(item, Plain) and item.is_none)]
        alike = any(all(isinstance(item, kind) for item in inputs) for kind in (Module, Function))
        if 0 < len(inputs) <= MAX_CALLEES and alike:
            return self._call_each(inputs, arguments, node)
        return self._call_unknown(callee, arguments, node)

    def _call_each(self, callees: list[Value], arguments: Arguments, node: ast.Call) -> Value:
        """One callee or another runs: alternatives, like the arms of an `if`."""
        branch, path, outer = Branch(site_of(node), []), self.path, self.items
        results: list[Value] = []
        for number, callee in enumerate(callees):
            self.items, self.path = [], (*path, (branch, number))
            results.append(self.call_value(callee, arguments, node))
            branch.arms.append(self.items)
        self.items, self.path = outer, path
        self.items.append(branch)
        return self.phi(node, results)

    def _call_unknown(self, callee: Value, arguments: Arguments, node: ast.Call) -> Value:
        if isinstance(callee, (Plain, Container, Parameters)):
            return self.made(Unknown(node, "call", arguments.all(), "", callee, self.mode))
        if isinstance(callee, Unknown) and self._of_module(callee):
            return self.module_result(callee, arguments, node)
        return self.unresolved(callee, owner_label(callee), arguments.all(), node)

    def _of_module(self, callee: Value) -> bool:
        """An attribute of a module that is no method, or an element of one: a submodule."""
        while isinstance(callee, Unknown) and callee.origin in ("attribute", "element", "iteration") and callee.parents:
            callee = resolved(callee.parents[0])
        return isinstance(callee, Module)

    # -- modules ------------------------------------------------------------------------------------

    def _forward(self, callee: Module, arguments: Arguments, node: ast.Call) -> Value:
        if callee.inplace and arguments.positional:
            return self._activate_in_place(callee, arguments.positional[0], node)
        opening = self._opening(callee)
        if opening is not None and opening.inplace and arguments.positional and not arguments.starred:
            overwritten = self._activate_in_place(opening, arguments.positional[0], node)
            self.openings[overwritten] = opening
            arguments = Arguments([overwritten, *arguments.positional[1:]], arguments.keywords, [])
        elif callee.info is not None and (forward := self.forward_of(callee.info)) is not None:
            self._overwrite(forward, callee.info, arguments, node)
            self._note_call(callee.info, arguments)
        return self.module_result(callee, arguments, node)

    def _opening(self, callee: Module) -> Module | None:
        """The first module of a `Sequential`."""
        if callee.info is not None or not callee.name.endswith(".Sequential"):
            return None
        first = resolved(self.element(callee, 0, ast.Constant(0))) if callee.parents else None
        return first if isinstance(first, Module) else None

    def _overwrite(self, forward: Forward, info: ClassInfo, arguments: Arguments, node: ast.Call) -> None:
        """Record the arguments that a `forward` of this module activates in place."""
        method = self.definitions.method(info, "forward")
        assert method is not None
        for index, name in enumerate(method.parameters[1:]):
            argument = arguments.get(index, name)
            if name in forward.overwritten and argument is not None and index < len(node.args):
                self._change_argument(argument, forward.overwritten[name], node.args[index], node)

    def _note_call(self, info: ClassInfo, arguments: Arguments) -> None:
        """Remember which parameters of a `forward` are given, and in which grad mode."""
        method = self.definitions.method(info, "forward")
        assert method is not None
        named = zip(method.parameters[1:], arguments.positional, strict=False)
        values = {**dict(named), **arguments.keywords}
        given = {name for name, value in values.items() if not (isinstance(value, Plain) and value.is_none)}
        self.forward_calls.setdefault(method, []).append((frozenset(given), self.mode))

    def _change_argument(self, argument: Value, how: str, written: ast.expr, node: ast.Call) -> Tensor:
        """Record that a call overwrites an argument, which is written so."""
        self.mutated.add(argument)
        result = self.mutate(node, None, argument, how, ())
        assert isinstance(result, Tensor)
        self.in_place_results[result] = written
        return result

    def module_result(self, callee: Value, arguments: Arguments, node: ast.Call) -> Value:
        info = callee.info if isinstance(callee, Module) else None
        mode = self.mode
        if info is not None:
            forward = self.definitions.method(info, "forward")
            mode = (self.decorated_mode(forward) if forward is not None else None) or mode
        given = arguments.all() if info is not None else arguments.all_from("input")
        result = self.made(Tensor(node, "module", (callee, *given), mode))
        if info is not None and (known := self.forward_of(info)) is not None:
            result.body = known.returned
        self.emit(Compute(site_of(node), result))
        return result

    def _activate_in_place(self, callee: Module, argument: Value, node: ast.Call) -> Tensor:
        result = self._change_argument(argument, callee.name.rpartition(".")[2], first_argument(node), node)
        self.in_place_modules[result] = callee
        return result
