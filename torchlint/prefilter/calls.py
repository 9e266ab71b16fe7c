"""Calls: of operators, of modules, and of functions of the file."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator

from torchlint.prefilter.effects import ALL, FIRST, NONE, Arguments, Effect
from torchlint.prefilter.expressions import Expressions
from torchlint.prefilter.known import (
    BUILTINS,
    COLLECTING,
    CONTAINERS,
    OPERATORS_OF_TORCH,
    PACKAGES,
    PASSING,
    PLAIN,
    SHARING,
    WITHOUT_GRADIENTS,
    WITHOUT_GRAPH,
)
from torchlint.prefilter.names import dotted, is_false, is_unusual, last, may_be_self
from torchlint.prefilter.values import MADE, NOT, Maybe, Value, either, present, tracked_most
from torchlint.pytorch import naming
from torchlint.pytorch.autograd_table import INPLACE, INPLACE_MODULES, MODULES

_LEAVES = frozenset({"Parameter", "requires_grad_", "parameters", "named_parameters"})


class Calls(Expressions):
    """Reads calls."""

    def _call(self, node: ast.Call) -> Maybe:
        func = self._callee(node.func)
        if func is not node.func:
            node = ast.Call(func, node.args, node.keywords)
        name = last(func)
        package = dotted(func.value) if isinstance(func, ast.Attribute) else ""
        if package.rpartition(".")[2] in WITHOUT_GRADIENTS:
            return None
        if isinstance(func, ast.Name):
            name = self.surroundings.unaliased(name)
        if (asked := _asked(node)) is not None:
            return self._value(asked)
        if name == "set_grad_enabled":
            self._without_grad = False
        has_receiver = self._has_receiver(func, package)
        receiver = self._value(func.value if isinstance(func, ast.Attribute) else func) if has_receiver else None
        if self._is_unusual(func, receiver):
            self.saved_changed = self.leaf_changed = True  # hardly anybody writes so: the model shall read it
        arguments = self._arguments(node)
        if out := arguments.keywords.get("out"):
            self._change(out, arguments.all())
        if name in _LEAVES or _requires_grad(node):
            return self._leaf(node, receiver if name == "requires_grad_" else None)
        if has_receiver and receiver is None:
            return None
        return self._result(node, name, receiver, arguments, package)

    def _callee(self, func: ast.expr) -> ast.expr:
        """What is called: where a name is bound to a method or function of PyTorch, that itself."""
        if isinstance(func, ast.NamedExpr):
            self._value(func)
            return self._callee(func.value)
        if isinstance(func, ast.Call) and (asked := _asked(func)) is not None:
            return asked
        bound = self._names.get(func.id) if isinstance(func, ast.Name) else None
        if bound is None or not bound.method:
            return func
        name = "torch" if bound.receiver is None else f"receiver of {bound.method}"
        if bound.receiver is not None:
            self._names[name] = bound.receiver
        return ast.Attribute(ast.Name(name), bound.method)

    def _is_unusual(self, func: ast.expr, receiver: Maybe) -> bool:
        """Whether the model sees through what is called, though it is neither a name nor a method of a value."""
        if isinstance(func, ast.Attribute):
            base = _base(func.value)
            return is_unusual(base) and (may_be_self(base) or (receiver is not None and self._is_package(receiver)))
        if isinstance(func, ast.Name):
            bound = self._names.get(func.id)
            return bound is not None and not bound.computed and any(base.method for base in bound.bases)
        return is_unusual(func)

    def _has_receiver(self, func: ast.expr, package: str) -> bool:
        """Whether a method is called on a value, or a value that has no name."""
        if not isinstance(func, ast.Attribute):
            return not isinstance(func, (ast.Name, ast.Call))
        root = package.partition(".")[0]
        bound = self._names.get(root)
        is_package = self._is_imported(bound) if bound else self._names_package(root)
        return not (package in PACKAGES or is_package)

    def _names_package(self, name: str) -> bool:
        """Whether a name stands for what the file imports, or for a part of that."""
        return bool(name) and (self.surroundings.is_imported(name) or self.surroundings.unaliased(name) != name)

    def _arguments(self, node: ast.Call) -> Arguments:
        starred = any(isinstance(item, ast.Starred) for item in node.args)
        by_class = isinstance(node.func, ast.Attribute) and last(node.func.value)[:1].isupper()
        return Arguments(
            [self._value(item) for item in node.args],
            {name: self._value(value) for name, value in _keywords(node)},
            shifted=starred or by_class,
        )

    def _result(self, node: ast.Call, name: str, receiver: Maybe, arguments: Arguments, package: str) -> Maybe:
        func = node.func
        results: list[Maybe] = []
        if receiver is None and isinstance(func, ast.Name) and (bound := self._names.get(name)) and bound.body:
            return self._evaluated(bound.body, arguments.positional)
        if isinstance(func, ast.Name) and name in self._nested:
            self._hand_over(name, arguments)
            return self._affected(self._nested[name], arguments)
        function = self._function_of_file(func, name, receiver, package)
        if function:
            results.append(self._run(func, function, arguments, receiver))
        if name in OPERATORS_OF_TORCH and not self._is_own(func, name):
            results.append(self._operator(name, node, receiver, arguments))
        return either(results) if results else self._other(node, name, receiver, arguments)

    # -- functions of the file ----------------------------------------------------------------------------

    def _function_of_file(self, func: ast.expr, name: str, receiver: Maybe, package: str) -> str:
        """The name of the function or method of the file that may be called."""
        if isinstance(func, ast.Name):
            function = self._label(self._names[name]).rpartition(".")[2] if name in self._names else name
            return function if self.surroundings.defines(function) else ""
        if not isinstance(func, ast.Attribute) or not self.surroundings.defines(name):
            return ""
        if package in ("self", "cls") or _is_super(func) or self._is_object(receiver):
            return name
        return ""

    def _is_object(self, value: Maybe) -> bool:
        """Whether a value may be of a class of the file."""
        label = self._label(value)
        return any(self.surroundings.is_class(item) for item in (label, *self.surroundings.made(label, self.owner)))

    def _run(self, func: ast.expr, name: str, arguments: Arguments, receiver: Maybe) -> Value:
        self._hand_over(name, arguments)
        if name == self._outermost and (isinstance(func, ast.Name) or dotted(func) == f"self.{name}"):
            return Value(computed=False)  # the model does not follow a function into itself
        classes = self.surroundings.bases(self.owner) if self.owner and _is_super(func) else None
        effect = self.surroundings.effect(name, classes)
        if dotted(func).startswith("self.") and self.surroundings.changes_attributes:
            for attribute in effect.attributes - self._names.keys():
                self._names[attribute] = self._unbound(attribute.rpartition(".")[2], attribute)
            self._hold(self._itself, effect, arguments)
        result = self._affected(effect, arguments)
        if receiver is not None:
            result.tracked = max(result.tracked, receiver.tracked)
            self._hold(receiver, effect, arguments)
        return result

    def _hold(self, receiver: Value, effect: Effect, arguments: Arguments) -> None:
        """What a method does to an object: it may keep what it is handed, and changes what it has kept."""
        receiver.held += arguments.at(effect.keeps)
        if effect.keeps_saved:
            kept = Value(tracked=MADE)
            kept.saved = True
            receiver.held.append(kept)
        if any(map(self.surroundings.may_keep_tensor, effect.attributes)):
            self._change_held(receiver)

    def _hand_over(self, name: str, arguments: Arguments) -> None:
        handed = arguments.where(lambda value: bool(value.tracked) or self._is_of_torch(self._label(value)))
        self.handing[name] = self.handing.get(name, NONE) | handed

    def _affected(self, effect: Effect, arguments: Arguments) -> Value:
        """The result of a call with a known effect."""
        inputs = arguments.values()
        tracked = MADE if effect.tracks or self.surroundings.goes_backward else tracked_most(inputs)
        for attribute in effect.attributes:
            if held := self._names.get(attribute):
                self._change(held)
        changed = list(arguments.at(effect.changes))
        for value in changed:
            self._change(value)
        for value in arguments.at(effect.parts):
            self._change_held(value)
        result = Value(*changed, tracked=tracked)
        result.tracked = tracked
        result.leaf = effect.leaf
        for value in arguments.at(effect.saves) if tracked else ():
            self._keep(value)
        if tracked and effect.keeps_result:
            self._keep(result)
        return result

    # -- operators ----------------------------------------------------------------------------------------

    def _is_own(self, func: ast.expr, name: str) -> bool:
        """Whether what has an operator's name is something else: a builtin, a module or method of the object."""
        if isinstance(func, ast.Name):
            return name in BUILTINS or name in self._names
        return isinstance(func, ast.Attribute) and dotted(func.value) == "self"

    def _leaf(self, node: ast.Call, base: Maybe) -> Value:
        leaf = Value(*present([base]), tracked=MADE)
        leaf.leaf = True
        if base is not None and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
            self._names[node.func.value.id] = leaf
        return leaf

    def _operator(self, name: str, node: ast.Call, receiver: Maybe, arguments: Arguments) -> Maybe:
        given = [*([receiver] if receiver else []), *arguments.positional]
        named = arguments.keywords
        inputs = list(present([*given, *named.values()]))
        if not inputs:
            return None
        if name in WITHOUT_GRAPH:
            return Value()
        flagged = _is_flagged(node)
        if name in INPLACE or flagged:
            self._change(inputs[0], inputs[1:])
            inputs[0].overwritten |= flagged
            self._step(*node.args)
            result = Value(inputs[0])
            self._save(name.removesuffix("_"), given, result, inputs[0], named)
            return result
        if name in SHARING:
            result = self._view(name, inputs[0])
            result.tracked = max(result.tracked, tracked_most(inputs)) if not result.apart else NOT
        else:
            result = Value(tracked=tracked_most(inputs))
        self._save(name, given, result, keywords=named)
        return result

    # -- all others ---------------------------------------------------------------------------------------

    def _other(self, node: ast.Call, name: str, receiver: Maybe, arguments: Arguments) -> Maybe:
        inputs = arguments.values()
        if name in (BUILTINS if isinstance(node.func, ast.Name) else PLAIN):
            return None
        if name == "next":
            return Value(*inputs)
        if name == "map" and node.args and self.surroundings.defines(mapped := last(node.args[0])):
            self.handing[mapped] = ALL
            result = self._affected(self.surroundings.effect(mapped), Arguments(arguments.all()[1:], {}, shifted=True))
            return Value(result, container=True)
        if name in CONTAINERS:
            return Value(*inputs, *present([receiver]), container=True)
        if name in WITHOUT_GRAPH:
            return Value()
        if name in COLLECTING and receiver:
            receiver.bases += tuple(inputs)
            return None
        if isinstance(node.func, ast.Name):
            return self._named(name, arguments)
        if isinstance(node.func, ast.Attribute):
            return self._method(node.func, name, receiver, arguments)
        if isinstance(node.func, ast.Call):
            self._value(node.func)
            made, flagged = last(node.func.func), _is_flagged(node.func)
            return self._through(
                self.surroundings.of_made([made]) | Effect(changes=FIRST if flagged else NONE), arguments
            )
        return self._module(self._label(receiver), arguments, itself=False)

    def _named(self, name: str, arguments: Arguments) -> Value:
        """A call by name: of what is imported the model knows nothing, unless it is named for a loss."""
        bound = self._names.get(name)
        if name == "self" and self.owner:
            return self._module(name, arguments, itself=True)
        if name in self._names and not (bound and bound.outer and self.surroundings.is_class(bound.label)):
            if self.surroundings.is_used_as_module(name) or (bound and not (bound.outer and not bound.label)):
                return self._module(self._label(bound) or name, arguments, itself=bool(bound and bound.outer))
        elif name in MODULES or self.surroundings.is_class(name):
            return self._object(name, arguments)
        elif not self.surroundings.is_imported_by_module(name) and not hasattr(builtins, name):
            return self._module(name, arguments, itself=True)
        return self._unknown(name, arguments.values(), passing=_passes_on(name))

    def _object(self, name: str, arguments: Arguments) -> Value:
        """What a class makes; an object of the file that is no module holds what it is handed."""
        made = Value(computed=False)
        made.label = name
        family = self.surroundings.bases(name) | {name}
        if self.surroundings.is_class(name) and not self.surroundings.is_module(name):
            effect = self.surroundings.effect("__init__", family)
            self._affected(effect, arguments)
            self._hold(made, effect, arguments)
        return made

    def _method(self, func: ast.Attribute, name: str, receiver: Maybe, arguments: Arguments) -> Value:
        inputs = arguments.values()
        if dotted(func.value) == "self":
            if self.surroundings.is_attribute(name):
                return self._module(f"self.{name}", arguments, itself=True)
            return self._unknown(name, inputs, passing=False)
        if receiver is None:
            if name in MODULES:
                return self._object(name, arguments)
            return self._unknown(name, inputs, passing=_passes_on(name))
        if name in ("forward", "__call__"):
            return self._module(self._label(receiver) or last(func.value), arguments, itself=True)
        if receiver.outer and self.surroundings.is_kept(name):
            return self._module(f"?.{name}", arguments, itself=True)
        return self._unknown(name, [receiver, *inputs], passing=receiver.computed)

    def _module(self, name: str, arguments: Arguments, *, itself: bool) -> Value:
        """A call of what is, or may be, a module."""
        result = self._through(self.surroundings.module(name, self.owner, itself=itself), arguments)
        result.whole = name or "?"
        return result

    def _through(self, effect: Effect, arguments: Arguments) -> Value:
        """The result of a module; what is read again after a module has overwritten it is another value now."""
        result = self._affected(effect, arguments)
        for value in arguments.at(effect.changes):
            value.overwritten = True
        return result

    def _unknown(self, name: str, inputs: Iterable[Value], *, passing: bool) -> Value:
        """A call of something else: it gives a graph if it is one of those that are `passing` it on."""
        if self.surroundings.goes_backward:
            return Value(tracked=MADE)
        computed = passing or naming.is_called_as_module(name)
        return Value(tracked=tracked_most(inputs) if passing else NOT, computed=computed)


def _base(node: ast.expr) -> ast.expr:
    """What an attribute of an attribute is one of."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node


def _keywords(node: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    """The arguments by name, those of a dictionary that is written there too."""
    for item in node.keywords:
        if item.arg is not None:
            yield item.arg, item.value
        elif isinstance(item.value, ast.Dict):
            for key, value in zip(item.value.keys, item.value.values, strict=True):
                yield (key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else "**"), value
        else:
            yield "**", item.value


def _asked(node: ast.Call) -> ast.Attribute | None:
    """The attribute that `getattr` is asked for."""
    if last(node.func) != "getattr" or len(node.args) < 2 or not isinstance(node.args[1], ast.Constant):
        return None
    return ast.Attribute(node.args[0], str(node.args[1].value))


def _requires_grad(node: ast.Call) -> bool:
    """Whether a call may be told that its result requires a gradient."""
    return any(name == "requires_grad" and not is_false(value) for name, value in _keywords(node))


def _passes_on(name: str) -> bool:
    """Whether a function of another package gives the graph of what it is given, as far as its name says."""
    return name in PASSING or bool(naming.LOSS.search(name))


def _is_flagged(node: ast.Call) -> bool:
    """Whether a function works in place, or a module that is made here."""
    named = any(item.arg == "inplace" and not is_false(item.value) for item in node.keywords)
    return named or (last(node.func) in INPLACE_MODULES and any(_is_true(item) for item in node.args))


def _is_true(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def _is_super(func: ast.expr) -> bool:
    return isinstance(func, ast.Attribute) and isinstance(func.value, ast.Call) and last(func.value.func) == "super"
