"""A quick reading of one function: what it changes in place, and whether that may have been saved or be a leaf.

Statements are read in order, loops twice, branches one after the other. A name holds a value, or nothing where it is
bound to what is no tensor. Whether an operator saves is looked up in the table that the model uses; what is called
without being known saves nothing, as the model takes it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from typing import Any

from torchlint.prefilter.calls import Calls
from torchlint.prefilter.effects import ALL, NONE, Effect, Positions
from torchlint.prefilter.known import CONTAINERS, PLAIN_TYPES, PRODUCTS
from torchlint.prefilter.names import annotated_as, switches_off, switches_on
from torchlint.prefilter.values import HANDED, MADE, Maybe, Names, Value, either, present
from torchlint.pytorch.autograd_table import MODULES
from torchlint.pytorch.naming import INFERENCE


class Reading(Calls):
    """Reads one function, or a whole module."""

    def effect(self) -> Effect:
        """What calling the function does that was read."""
        returned = [value for item in self._returned for value in item.storage()]
        return Effect(
            saves=NONE.union(*(at for value, at in self._handed if value.saved or value in self._left)),
            changes=NONE.union(*(at for value, at in self._handed if value.changed)),
            keeps_result=any((value.saved or value in self._left) and not value.outer for value in returned),
            tracks=any(value.tracked == MADE for value in returned),
            leaf=any(value.leaf for value in returned),
            attributes=frozenset(value.label for value in self._held if value.changed),
            parts=NONE.union(*(at for value, at in self._handed if value.part_changed)),
            keeps=NONE.union(*(at for value, at in self._handed if value in self._attributes)),
            keeps_saved=any(value.saved or value in self._left for value in self._attributes),
        )

    def block(self, statements: Iterable[ast.stmt]) -> None:
        for statement in statements:
            read = _STATEMENTS.get(type(statement))
            if read is not None:
                read(self, statement)
            else:
                self._parts(statement)

    def _function_def(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        outside = self._names, self._function, self._without_grad, self._infers, self.called
        nested = bool(self._function)
        if nested:
            around = self._handed, self._returned
            self._handed, self._returned = [], []
        handed = ALL if self.called else self.surroundings.handed(node.name)
        self._names, self._function, self.called = dict(self._names), node.name, False
        self._without_grad = any(switches_off(item) for item in node.decorator_list)
        self._infers = self._infers or bool(INFERENCE.search(node.name))
        self._parameters(node.args, handed)
        self.block(node.body)
        outside[0].update((name, self._names[name]) for name in _shared(node) if name in self._names)
        bound = [value for name, value in self._names.items() if name.startswith("self.")]
        self._attributes.update(*(value.storage() for value in present(bound)))
        if nested:
            self._nested[node.name] = self.effect()
            self._handed, self._returned = around
        self._names, self._function, self._without_grad, self._infers, self.called = outside

    def _parameters(self, node: ast.arguments, handed: Positions) -> None:
        positional = [*node.posonlyargs, *node.args]
        first = 1 if positional and positional[0].arg in ("self", "cls") else 0
        for index, argument in enumerate((*positional, *node.kwonlyargs), -first):
            at: Positions = frozenset({index, argument.arg})
            self._hand(argument, at, called=index >= 0 and not handed.isdisjoint(at | ALL))
        for extra in (node.vararg, node.kwarg):
            if extra is not None:
                value = Value(container=True, tracked=HANDED * bool(handed), computed=bool(handed))
                self._names[extra.arg] = value
                self._handed.append((value, ALL))

    def _hand(self, argument: ast.arg, at: Positions, *, called: bool) -> None:
        kind = annotated_as(argument.annotation)
        if kind in PLAIN_TYPES:
            self._names[argument.arg] = None
            return
        value = Value(tracked=HANDED * called, container=kind.lower() in CONTAINERS, computed=called)
        value.outer = True
        if kind in MODULES or self.surroundings.is_class(kind):
            value.label = kind
        self._names[argument.arg] = value
        self._handed.append((value, at))

    def _class_def(self, node: ast.ClassDef) -> None:
        outside = dict(self._names)
        self.block(node.body)
        self._names = outside

    def _return(self, node: ast.Return) -> None:
        value = self._value(node.value)
        if value is not None:
            self._returned.append(value)

    def _if(self, node: ast.If) -> None:
        self._value(node.test)
        before, start = dict(self._names), len(self._kept)
        self.block(node.body)
        after, self._names = self._names, before
        kept = set(self._kept[start:])
        for value in kept:
            value.saved = False
        start = len(self._kept)
        self.block(node.orelse)
        kept_else = set(self._kept[start:])
        if _leaves(node.body):
            self._left |= kept
            return
        for value in kept:
            value.saved = True
        if _leaves(node.orelse):
            self._names = after
            self._left |= kept_else - kept
            for value in kept_else - kept:
                value.saved = False
            return
        self._merge(after, kept - kept_else, kept_else - kept)

    def _merge(self, other: Names, kept_there: Set[Value] = frozenset(), kept_here: Set[Value] = frozenset()) -> None:
        """From here on names are what they are, or what they are in `other`; each as it was kept on its own way."""
        names = self._names
        for name, value in other.items():
            mine = names.setdefault(name, value)
            if mine is not value:
                names[name] = either((self._without(mine, kept_there), self._without(value, kept_here)))

    def _without(self, value: Maybe, kept: Set[Value]) -> Maybe:
        """A value on a way where some were not kept."""
        if value is None or not kept or kept.isdisjoint(storage := value.storage()):
            return value
        copy = Value(*(storage - kept - {value}), tracked=value.tracked, computed=value.computed)
        copy.container, copy.leaf, copy.outer = value.container, value.leaf, value.outer
        copy.label, copy.whole, copy.apart = value.label, value.whole, value.apart
        self._handed += [(copy, at) for item, at in self._handed if item is value]
        self._held += [copy] if value in self._held else []
        return copy

    def _for(self, node: ast.For | ast.AsyncFor) -> None:
        iterable = self._value(node.iter)
        self._loop(node, lambda: self._bind(node.target, self._item(iterable)))

    def _while(self, node: ast.While) -> None:
        self._loop(node, lambda: self._value(node.test))

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, begin: Callable[[], object]) -> None:
        """Twice around; in a loop around it only the last time, or time would double with each level."""
        repeats = self._repeats
        for last in (False, True) if repeats else (False,):
            self._repeats = last
            before = dict(self._names)
            begin()
            self.block(node.body)
            self._merge(before)
        self._repeats = repeats
        self.block(node.orelse)

    def _with(self, node: ast.With | ast.AsyncWith) -> None:
        before = self._without_grad
        for item in node.items:
            value = self._value(item.context_expr)
            off = self._without_grad or switches_off(item.context_expr)
            self._without_grad = off and not switches_on(item.context_expr)
            if item.optional_vars is not None:
                self._bind(item.optional_vars, value)
        self.block(node.body)
        self._without_grad = before

    def _try(self, node: Any) -> None:
        self.block(node.body)
        for handler in node.handlers:
            self.block(handler.body)
        self.block(node.orelse)
        self.block(node.finalbody)

    def _match(self, node: ast.Match) -> None:
        self._value(node.subject)
        for case in node.cases:
            self.block(case.body)

    def _assign(self, node: ast.Assign) -> None:
        value = self._value(node.value)
        for target in node.targets:
            self._bind(target, value, node.value)

    def _annotated(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._bind(node.target, self._value(node.value), node.value)

    def _augmented(self, node: ast.AugAssign) -> None:
        by, target = self._value(node.value), self._value(node.target)
        if target is None:
            self._bind(node.target, Value(tracked=by.tracked) if by else None)
        elif not target.container:
            self._step(node.value)
            self._change(target, (by,))
            self._save(PRODUCTS.get(type(node.op), ""), [target, by], target, changed=target)


def _shared(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """The names of a function that are bound around it."""
    for item in node.body:
        if isinstance(item, (ast.Global, ast.Nonlocal)):
            yield from item.names


def _leaves(block: Sequence[ast.stmt]) -> bool:
    """Whether a block leaves the function at its end."""
    return bool(block) and isinstance(block[-1], (ast.Return, ast.Raise))


_STATEMENTS: dict[type, Callable[[Reading, Any], None]] = {
    ast.FunctionDef: Reading._function_def,
    ast.AsyncFunctionDef: Reading._function_def,
    ast.ClassDef: Reading._class_def,
    ast.Return: Reading._return,
    ast.If: Reading._if,
    ast.For: Reading._for,
    ast.AsyncFor: Reading._for,
    ast.While: Reading._while,
    ast.With: Reading._with,
    ast.AsyncWith: Reading._with,
    ast.Try: Reading._try,
    ast.Match: Reading._match,
    ast.Assign: Reading._assign,
    ast.AnnAssign: Reading._annotated,
    ast.AugAssign: Reading._augmented,
}
if hasattr(ast, "TryStar"):
    _STATEMENTS[ast.TryStar] = Reading._try
