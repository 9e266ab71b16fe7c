"""Lists that are made anew, or of which something is deleted or set: `del model.saved[:]`."""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass, field

from torchlint.model.program import Program
from torchlint.syntax.python_ast import FUNCTIONS, children, dotted


@dataclass
class _Changes:
    """By last names how often something is bound to them, and of which a part is deleted or set.

    What binds an attribute outside of `__init__` may do so again.
    """

    bound: Counter[str] = field(default_factory=Counter)
    cut: set[str] = field(default_factory=set)
    begins_anew: bool = False
    """Whether objects call their own `__init__` once more."""


class CutLists:
    """Asks by last names, `saved` of `model.saved`; each function is looked through once."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._known: dict[ast.AST, _Changes] = {}

    def is_cut(self, name: str, at: ast.AST) -> bool:
        """Whether what has this last name is made more than once, or cut: a local name, in the function around."""
        definitions = self._program.definitions_of(at)
        function = definitions.function_around(at) if "." not in name else None
        root = function.node if function is not None else definitions.tree.module
        if root not in self._known:
            self._known[root] = _changes(root)
        last = name.rpartition(".")[2]
        known = self._known[root]
        return known.bound[last] > (not known.begins_anew) or last in known.cut


def _changes(root: ast.AST) -> _Changes:
    found = _Changes()
    stack = [(root, True)]
    while stack:
        node, is_once = stack.pop()
        for target in node.targets if isinstance(node, (ast.Assign, ast.Delete)) else ():
            for item in target.elts if isinstance(target, ast.Tuple) else (target,):
                is_again = isinstance(item, ast.Attribute) and not is_once
                found.bound[dotted(item).rpartition(".")[2]] += 1 + is_again
                if isinstance(item, ast.Subscript):
                    found.cut.add(dotted(item.value).rpartition(".")[2])
        found.begins_anew |= isinstance(node, ast.Call) and dotted(node.func) == "self.__init__"
        inner = node.name == "__init__" if isinstance(node, FUNCTIONS) else is_once
        stack.extend((child, inner) for child in children(node))
    return found
