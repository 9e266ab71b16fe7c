"""Comprehensions, as loops that build a container."""

from __future__ import annotations

import ast
from collections.abc import Callable

from torchlint.model.events import Loop
from torchlint.model.interpret.machine import Machine, Part
from torchlint.model.interpret.transfer.elements import Elements
from torchlint.model.interpret.transfer.few import few_in
from torchlint.model.position import Snapshot, changed
from torchlint.model.values import Container, Dict, Generator, List, Plain, Set, Value
from torchlint.syntax.python_ast import site_of

_CONTAINERS: dict[type[ast.AST], type[Container]] = {
    ast.ListComp: List, ast.SetComp: Set, ast.DictComp: Dict, ast.GeneratorExp: Generator,
}  # fmt: skip


class Comprehensions(Part):
    """Evaluates comprehensions."""

    def __init__(self, machine: Machine, elements: Elements) -> None:
        super().__init__(machine)
        self.elements = elements

    def evaluators(self) -> dict[type[ast.AST], Callable[..., Value]]:
        """The method that evaluates each kind of expression."""
        return dict.fromkeys(_CONTAINERS, self._comprehension)

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Value:
        state, names = self.state, dict(self.state.frame.locals)
        first = self.machine.value(node.generators[0].iter)
        if isinstance(node, (ast.ListComp, ast.GeneratorExp)) and (options := self._for_each_option(node, first)):
            return state.stamp(List(node, tuple(options)))
        loop = Loop(site_of(node), [], depth=len(state.position.calls))
        before = Snapshot(names, state.heap, dict(state.contents), state.mode, True)
        with state.loop(loop):
            for number, generator in enumerate(node.generators):
                element = self.elements.iterate(self.machine.value(generator.iter) if number else first, generator)
                element = self.elements.some_of(element, generator) if generator.ifs else element
                self.machine.write(generator.target, element)
                for condition in generator.ifs:
                    self.machine.value(condition)
            if isinstance(node, ast.DictComp):
                self.machine.value(node.key)
            value = self.machine.value(node.value if isinstance(node, ast.DictComp) else node.elt)
        state.frame.locals = names
        loop.edge = changed(before, state.snapshot())
        state.add(loop)
        return state.stamp(_CONTAINERS[type(node)](node, (value,)))

    def _for_each_option(self, node: ast.ListComp | ast.GeneratorExp, options: Value) -> list[Value]:
        """The values built for each of a few texts or dictionaries: `[build(name) for name in ("clip", "log")]`.

        Other items count if each result gets a name: `a, b = (SGD(net.parameters()) for net in (one, two))`.
        """
        items = few_in(options) if len(node.generators) == 1 and not node.generators[0].ifs else []
        parent = self.definitions.tree.parent(node)
        is_named = isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Tuple)
        is_list = isinstance(node, ast.ListComp) and all(map(_is_option, items))
        names, made = dict(self.state.frame.locals), []
        for item in items if is_named or is_list else ():
            self.machine.write(node.generators[0].target, item)
            made.append(self.machine.value(node.elt))
        self.state.frame.locals = names
        return made


def _is_option(item: Value) -> bool:
    """Whether a value selects the object to build: a text, or a dictionary."""
    return (isinstance(item, Plain) and isinstance(item.constant, str)) or isinstance(item, Dict)
