"""Code for another release of PyTorch, or code that tests the behavior of a release."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from functools import lru_cache

from torchlint.lazy_pattern import LazyPattern
from torchlint.syntax.python_ast import FUNCTIONS, LEAVING, TRIES, dotted, walk
from torchlint.syntax.python_tree import PythonTree

_VERSION = LazyPattern(
    r"[vV]ersion|VERSION|hasattr|getattr|has_?attr|TORCH_?[A-Z\d]|_?HAS_|has_|is_.*available|_AVAILABLE|signature|"
    r"[lL]egacy|LEGACY"
)
"""Names that make a test a version or feature check; hints, which only silence."""
_OF_MACHINE = frozenset({"is_available", "is_bf16_supported"})
_DEVICES = frozenset({"cuda", "mps", "xpu", "accelerator", "distributed"})
_CATCHING = frozenset("AttributeError ImportError ModuleNotFoundError".split())
_CATCHING_ALL = frozenset({"Exception", "BaseException"})
_FEW = 5
"""Maximum size of a `try` that counts as a feature check if it catches everything."""
_EXPECTING = frozenset(
    "raises warns assertRaises assertWarns assertRaisesRegex assertWarnsRegex deprecated_call".split()
)


def is_guarded(tree: PythonTree, node: ast.AST) -> bool:
    """Whether a node runs with some releases only, or its exception is expected."""
    below, flags = node, _flags(tree)
    for around in tree.ancestors(node):
        if isinstance(around, ast.ExceptHandler) or (isinstance(around, TRIES) and _may_fail(around)):
            return True
        if isinstance(around, (ast.If, ast.IfExp, ast.While)) and (
            _asks_for_version(around.test) or not flags.isdisjoint(_last_names(around.test))
        ):
            return True
        if isinstance(around, (ast.With, ast.AsyncWith)) and any(_expects(item.context_expr) for item in around.items):
            return True
        if isinstance(around, (*FUNCTIONS, ast.ClassDef)) and any(
            _asks_for_version(item) for item in around.decorator_list
        ):
            return True
        if isinstance(below, ast.stmt) and _comes_after_guard(tree, below):
            return True
        below = around
    return False


@lru_cache(maxsize=4)
def _flags(tree: PythonTree) -> set[str]:
    """Names assigned from a version check: `OLD = torch.__version__ < "1.8"`, `self.legacy = not hasattr(...)`."""
    assigned = (node for node in tree.of_type(ast.Assign) if _asks_for_version(node.value))
    return {name for node in assigned for target in node.targets for name in _last_names(target)}


def _last_names(node: ast.AST) -> set[str]:
    named = (dotted(item) for item in walk(node) if isinstance(item, (ast.Name, ast.Attribute)))
    return {name.rpartition(".")[2] for name in named if name} - {"self", "cls"}


def has_other_form(tree: PythonTree, call: ast.Call, keyword: str) -> bool:
    """Whether a condition selects the form of a call: another arm has a call with the argument."""
    below: ast.AST = call
    for around in tree.ancestors(call):
        if isinstance(around, (*FUNCTIONS, ast.ClassDef)):
            return False
        if isinstance(around, (ast.If, ast.IfExp, *TRIES)):
            other = (item for arm in _arms(around) if below not in arm for root in arm for item in walk(root))
            calls = (item for item in other if isinstance(item, ast.Call))
            if any(item.arg == keyword for other_call in calls for item in other_call.keywords):
                return True
        below = around
    return False


def _arms(node: ast.AST) -> list[list[ast.AST]]:
    """The possible paths of a branch or a `try`, each by its nodes."""
    parts = (getattr(node, name, []) for name in ("body", "orelse", "handlers", "finalbody"))
    return [part if isinstance(part, list) else [part] for part in parts]


def _may_fail(node: ast.Try) -> bool:
    """Whether a `try` has a fallback for something that does not exist."""
    caught = [_CATCHING_ALL if handler.type is None else _names(handler.type) for handler in node.handlers]
    if any(not _CATCHING.isdisjoint(names) for names in caught):
        return True
    if all(_CATCHING_ALL.isdisjoint(names) for names in caught):
        return False
    statements = sum(isinstance(item, ast.stmt) for root in node.body for item in walk(root))
    return statements <= _FEW or any(map(_computes, node.handlers))


def _computes(handler: ast.ExceptHandler) -> bool:
    """Whether a handler runs PyTorch code in place of the `try`."""
    words = (dotted(item.func) for statement in handler.body for item in walk(statement) if isinstance(item, ast.Call))
    return any(word.startswith("torch.") and not word.startswith("torch.cuda.empty_cache") for word in words)


def _names(node: ast.expr) -> Collection[str]:
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    return {dotted(part).rpartition(".")[2] for part in parts}


def _asks_for_version(test: ast.expr) -> bool:
    names = (item for item in walk(test) if isinstance(item, (ast.Name, ast.Attribute)) and not _is_of_machine(item))
    return any(_VERSION.search(item.id if isinstance(item, ast.Name) else item.attr) for item in names)


def _is_of_machine(node: ast.Name | ast.Attribute) -> bool:
    """Whether a test is about the machine, not the release: `torch.cuda.is_available`."""
    owner, _, last = dotted(node).rpartition(".")
    return last in _OF_MACHINE and owner.rpartition(".")[2] in _DEVICES


def _expects(context: ast.expr) -> bool:
    name = dotted(context.func) if isinstance(context, ast.Call) else ""
    return name.rpartition(".")[2] in _EXPECTING


def _comes_after_guard(tree: PythonTree, statement: ast.stmt) -> bool:
    """Whether an earlier statement of the block checks a version and leaves."""
    before = tree.before(statement)
    looked_up = {name for item in before for name in _looked_up(item)}
    return any(
        isinstance(item, ast.If)
        and _leaves(item.body[-1])
        and (_asks_for_version(item.test) or _reads(item, looked_up))
        for item in before
    )


def _leaves(statement: ast.stmt) -> bool:
    """Whether a statement leaves its block, if it does not fail."""
    return isinstance(statement, LEAVING) or (isinstance(statement, ast.Try) and _leaves(statement.body[-1]))


def _looked_up(statement: ast.AST) -> Iterator[str]:
    """The names assigned from `getattr`, or from its default."""
    if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
        if dotted(statement.value.func) == "getattr":
            yield from (target.id for target in statement.targets if isinstance(target, ast.Name))


def _reads(branch: ast.If, names: set[str]) -> bool:
    return any(isinstance(item, ast.Name) and item.id in names for item in walk(branch.test))
