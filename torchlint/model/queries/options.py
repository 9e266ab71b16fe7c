"""Options: values that a program tests in several places and does not change, such as `if args.amp` and its `else`."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cached_property

from torchlint.index import FileIndex
from torchlint.model.cases import OTHER, Case, Question, bare_names, leaves, option_of, question_of
from torchlint.model.program import Program
from torchlint.syntax.python_ast import FUNCTIONS, LOOPS, Site, site_of, walk
from torchlint.syntax.python_tree import PythonTree

_OF_TENSORS = frozenset("data device dtype grad grad_fn is_cuda is_leaf ndim requires_grad shape training".split())
"""Attributes whose value differs from object to object."""


class Options:
    """The options of a program."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._known_questions: dict[ast.AST, list[tuple[str, Question]]] = {}

    def around(self, site: Site) -> list[str]:
        """The options that decide whether a place is reached, and also something elsewhere."""
        tree = site.inner.tree if site.inner is not None else self._program.tree
        try:
            node = tree.node(site.written)
        except KeyError:  # a decorator
            return []
        asked = [option for around in tree.ancestors(node) for option, _ in self._asked_by(around, tree)]
        return [option for option in dict.fromkeys(asked) if len(self._places[option]) > 1]

    def cases(self, option: str) -> list[Case]:
        """The values an option may have, as far as the program distinguishes them."""
        questions = [question for found in self._places[option] for question in found]
        literals = [item for question in questions for item in question.literals or ()]
        others = [True, False] if any(question.literals is None for question in questions) else [OTHER]
        return [Case(option, value) for value in dict.fromkeys((*literals, *others))]

    def apart(self, first: ast.AST, second: ast.AST) -> bool:
        """Whether no value of an option leads to both of two places of the file."""
        both = set(self.around(site_of(first))) & set(self.around(site_of(second)))
        return any(
            not any(self._leads_to(first, case) and self._leads_to(second, case) for case in self.cases(option))
            for option in both
        )

    def _leads_to(self, place: ast.AST, case: Case) -> bool:
        """Whether a value of an option may lead to a place, as far as the conditions around it show."""
        tree, inner = self._program.tree, place
        for item in tree.ancestors(place):
            if isinstance(item, ast.If) and inner is not item.test:
                holds = _holds(item.test, case, tree)
                if holds is not None and holds is not (inner in item.body):
                    return False
            inner = item
        return True

    @cached_property
    def _places(self) -> dict[str, list[list[Question]]]:
        """The questions of each place by option; places inside an arm of such a place do not count separately."""
        found: dict[str, dict[ast.AST, list[Question]]] = {}
        for tree in self._program.files:
            for node in tree.of_type(ast.If, ast.IfExp):
                outer = [*tree.ancestors(node)]
                for option, question in self._asked_by(node, tree):
                    places = found.setdefault(option, {})
                    place = next((item for item in outer if item in places), node)
                    places.setdefault(place, []).append(question)
        return {option: [*places.values()] for option, places in found.items()}

    def _asked_by(self, node: ast.AST, tree: PythonTree) -> list[tuple[str, Question]]:
        """The options that a condition tests, with the tests for each, computed once."""
        if not isinstance(node, (ast.If, ast.IfExp)):
            return []
        if node not in self._known_questions:
            self._known_questions[node] = list(self._questions(node, tree))
        return self._known_questions[node]

    def _questions(self, node: ast.If | ast.IfExp, tree: PythonTree) -> Iterator[tuple[str, Question]]:
        for test in leaves(node.test):
            question = question_of(test)
            option = option_of(question.operand, tree)
            if option is not None and not self._changes(question.operand, tree):
                yield option, question

    def _changes(self, operand: ast.expr, tree: PythonTree) -> bool:
        """Whether the program may change the value of an expression after a test of it."""
        attributes = {item.attr for item in walk(operand) if isinstance(item, ast.Attribute)}
        rebound = (self._rebinds(tree, name) for name in bare_names(operand))
        return not self._changed_attributes.isdisjoint(attributes) or any(rebound)

    @cached_property
    def _changed_attributes(self) -> set[str]:
        """Attributes of objects whose value may change after a test.

        An attribute that only `__init__` stores does not count, nor one with a single other assignment:
        `args.distributed = world > 1`. A single `self.tasks += 1` outside loops does not count either: the value is the
        same for all code before it.
        """
        stores: Counter[str] = Counter()
        changed = set(_OF_TENSORS)
        for tree in self._program.files:
            for node in tree.of_type(ast.Attribute):
                function = tree.function_around(node)
                if isinstance(node.ctx, ast.Load) or (function is not None and function.name == "__init__"):
                    continue
                stores[node.attr] += 1
                is_counted = isinstance(tree.parent(node), ast.AugAssign)
                if _is_in_loop(node, tree) or (_is_self(node.value) and not is_counted):
                    changed.add(node.attr)
        return changed | {name for name, times in stores.items() if times > 1}

    def _rebinds(self, tree: PythonTree, name: ast.Name) -> bool:
        """Whether a name gets a value more than once in the scope that tests it."""
        function, stores = tree.function_around(name), FileIndex.of(tree).bindings_of(name.id)
        own = [item for item in stores if tree.function_around(item) is function]
        parameters = walk(function.args) if function is not None else ()
        is_parameter = any(isinstance(item, ast.arg) and item.arg == name.id for item in parameters)
        binding = own or (() if is_parameter else stores)
        return len(binding) + is_parameter > 1 or any(_is_in_loop(item, tree) for item in binding)


def _holds(test: ast.expr, case: Case, tree: PythonTree) -> bool | None:
    """The result of a test in a case; None if the case does not decide it."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _holds(test.operand, case, tree)
        return None if inner is None else not inner
    if isinstance(test, ast.BoolOp):
        decisive = isinstance(test.op, ast.Or)
        parts = {_holds(part, case, tree) for part in test.values}
        return decisive if decisive in parts else None if None in parts else not decisive
    return case.answer(test, tree)


def _is_in_loop(node: ast.AST, tree: PythonTree) -> bool:
    """Whether a node is in a loop of its function."""
    around = next((item for item in tree.ancestors(node) if isinstance(item, (*LOOPS, *FUNCTIONS))), None)
    return isinstance(around, LOOPS)


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"
