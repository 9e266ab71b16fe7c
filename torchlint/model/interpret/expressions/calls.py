"""Call expressions: their callees and arguments."""

from __future__ import annotations

import ast

from torchlint.model.arguments import Arguments
from torchlint.model.interpret.expressions.callees import Callees
from torchlint.model.interpret.machine import Machine, Part
from torchlint.model.interpret.transfer.transfer import Transfer
from torchlint.model.values import (
    Attribute,
    Class,
    Container,
    External,
    List,
    SourceModule,
    Tuple,
    Unknown,
    Value,
    inputs_of,
    resolved,
)
from torchlint.pytorch import api, naming
from torchlint.syntax.python_ast import placed_as


class Calls(Part):
    """Evaluates calls."""

    def __init__(self, machine: Machine, transfer: Transfer, callees: Callees) -> None:
        super().__init__(machine)
        self.methods = transfer.methods
        self.externals = transfer.externals
        self.callees = callees

    def evaluate(self, node: ast.Call) -> Value:
        """The value of a call expression."""
        func = node.func
        if isinstance(func, ast.Attribute):
            receiver = self.machine.value(func.value)
            arguments = self.arguments(node)
            if isinstance(receiver, SourceModule):
                found = self.machine.member(receiver, func.attr, node)
                if found is not None:
                    return self.callees.call(found, arguments, node)
            if isinstance(receiver, External):
                if self._is_class_of_torch(receiver.name) and self.methods.has_handler(func.attr) and node.args:
                    return self._call_by_class(func, arguments, node)
                return self.externals.call(f"{receiver.name}.{func.attr}", arguments, node)
            if isinstance(receiver, Class):
                return self.callees.call_on_class(receiver, func.attr, arguments, node)
            return self.methods.call(receiver, func.attr, arguments, node)
        callee = self.machine.value(func)
        if isinstance(func, (ast.Name, ast.Call)) and (method := self._bound_method(callee)) is not None:
            return self._call_bound(method, node)
        return self.callees.call(callee, self.arguments(node), node)

    def _is_class_of_torch(self, name: str) -> bool:
        return api.package(name) == "torch" and naming.is_class_name(name.rpartition(".")[2])

    def _call_by_class(self, func: ast.Attribute, arguments: Arguments, node: ast.Call) -> Value:
        """`torch.optim.Optimizer.zero_grad(optimizer)`, the same as `optimizer.zero_grad()`."""
        first, *others = node.args
        call = placed_as(node, ast.Call(ast.Attribute(first, func.attr), others, node.keywords))
        rest = Arguments(arguments.positional[1:], arguments.keywords, arguments.starred)
        receiver = arguments.positional[0] if arguments.positional else self.machine.value(first)
        return self.methods.call(receiver, func.attr, rest, call)

    def _bound_method(self, callee: Value) -> Unknown | None:
        """A PyTorch method bound to a name, `step = optimizer.step`, or `getattr(optimizer, "step")`."""
        found = resolved(callee)
        if isinstance(found, Attribute) and self.methods.has_handler(found.label):
            return found
        return None

    def _call_bound(self, method: Unknown, node: ast.Call) -> Value:
        """The result of `step()` for a bound method, the same as `optimizer.step()`."""
        written = self.machine.own.tree.node(method.site)
        taken = written.args[0] if isinstance(written, ast.Call) and written.args else node.func
        owner = written.value if isinstance(written, ast.Attribute) else taken
        call = ast.Call(ast.Attribute(owner, method.label), node.args, node.keywords)
        return self.methods.call(method.parents[0], method.label, self.arguments(node), placed_as(node, call))

    def arguments(self, node: ast.Call) -> Arguments:
        """The arguments of a call."""
        positional: list[Value] = []
        keywords: dict[str, Value] = {}
        starred: list[Value] = []
        for item in node.args:
            if not isinstance(item, ast.Starred):
                (starred or positional).append(self.machine.value(item))
                continue
            value = self.machine.value(item.value)
            inner = resolved(value)
            if isinstance(inner, (List, Tuple)) and not inner.unsure:
                positional.extend(inner.parents)
            else:
                starred.append(value)
        for keyword in node.keywords:
            value = self.machine.value(keyword.value)
            if keyword.arg is not None:
                keywords[keyword.arg] = value
                continue
            if not self._add_options(keywords, list(inputs_of(value)), node):
                starred.append(value)
        return Arguments(positional, keywords, starred)

    def _add_options(self, keywords: dict[str, Value], given: list[Value], node: ast.Call) -> bool:
        """Add the certain entries of `**given` to the keywords; returns whether they are all entries."""
        found = [item for item in given if isinstance(item, Container)]
        if len(found) < len(given):
            return False
        options = [item.known_options for item in found]
        shared = [name for name in options[0] if all(name in item for item in options)]
        keywords.update((name, self.state.phi(node, [item[name] for item in options])) for name in shared)
        return not any(item.parents for item in found) and all(len(item) == len(shared) for item in options)
