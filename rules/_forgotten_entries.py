"""Entries of checkpoints that a file saves and a resume forgets: the optimizer, the best score and the epoch."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import resumes
from torchlint.pytorch import naming
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint import Model
    from torchlint.syntax.python_ast import Site

_COMMENTED = LazyPattern(r"(?i)#.*optim\w*\.load_state_dict")
"""A restored optimizer that the author has commented out."""
_STATELESS = frozenset({"SGD"})

_BEST = LazyPattern(r"(?i)best|record")


class Forgotten(NamedTuple):
    """The model is loaded at `site` and `counter` continues, but the saved optimizer `name` is not restored."""

    site: Site
    name: str
    saved: Site
    counter: Site


class ForgottenRecord(NamedTuple):
    """The checkpoint loaded at `site` contains the score `name`, saved at `saved`, but `start` starts it over."""

    site: Site
    name: str
    saved: Site
    start: Site


class ForgottenOptimizers:
    """Finds the checkpoints of a file that continue the epochs without the optimizer."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.tree = model.tree
        self.states = model.provenance.states

    def all(self) -> Iterator[Forgotten]:
        saved = [item for item in self.states.saved if naming.looks_like_optimizer(python_ast.last_name(item))]
        if not saved or not any(map(self._matters, saved)) or self._may_be_restored(saved):
            return
        for call, _ in self.states.loads:
            counter = resumes.continued(call, self.model)
            if counter is not None:
                code = self.tree.code(saved[0])
                yield Forgotten(python_ast.site_of(call), code, python_ast.site_of(saved[0]), counter)
                return

    def _matters(self, optimizer: ast.expr) -> bool:
        """Whether an optimizer may have moments: all but SGD without momentum."""
        made = self.model.provenance.created(optimizer)
        if not isinstance(made, ast.Call) or python_ast.called_name(made) not in _STATELESS:
            return True
        return any(item.arg in ("momentum", None) for item in made.keywords)

    def _may_be_restored(self, saved: list[ast.expr]) -> bool:
        """Whether some code may load the state of an optimizer, or the author has removed that code."""
        owners = [owner for _, owner in self.states.loads]
        if any(not isinstance(item, (ast.Name, ast.Attribute)) for item in owners):
            return True
        if any(naming.looks_like_optimizer(python_ast.last_name(item)) for item in owners):
            return True
        if _COMMENTED.search(self.tree.source.text):
            return True
        keys = [self._key(item) for item in saved]
        return any(key is None or self.model.reads_entry(key) for key in keys)

    def _key(self, owner: ast.expr) -> str | None:
        """The key under which a dictionary keeps the state of an object."""
        _, state, parent, *_ = self.tree.ancestors(owner)
        if isinstance(parent, ast.keyword):
            return parent.arg
        key: ast.expr | None = None
        if isinstance(parent, ast.Dict):
            key = next(key for key, value in zip(parent.keys, parent.values, strict=True) if value is state)
        elif isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Subscript):
            key = parent.targets[0].slice
        return key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else None


class ForgottenRecords:
    """Finds the best scores that a file saves and never reads."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.tree = model.tree

    def all(self) -> Iterator[ForgottenRecord]:
        for key, score in self._saved():
            name = python_ast.dotted(score)
            start = self._start(score, name)
            if start is None or self.model.reads_entry(key) or not self._is_updated(name):
                continue
            for call, _ in self.model.provenance.states.loads:
                if resumes.continued(call, self.model) is not None:
                    sites = (python_ast.site_of(item) for item in (score, start))
                    yield ForgottenRecord(python_ast.site_of(call), name, *sites)
                    return

    def _saved(self) -> Iterator[tuple[str, ast.expr]]:
        """The best scores in dictionaries with states, each with its key."""
        for node in self.tree.of_type(ast.Dict):
            calls = [item for item in node.values if isinstance(item, ast.Call)]
            if any(python_ast.called_name(call) == "state_dict" for call in calls):
                for key, value in zip(node.keys, node.values, strict=True):
                    text = key.value if isinstance(key, ast.Constant) else None
                    if isinstance(text, str) and _BEST.search(python_ast.dotted(value)):
                        yield text, value

    def _start(self, score: ast.expr, name: str) -> ast.Assign | None:
        """The only statement outside a loop that sets a score: to a number."""
        found = [
            node for node in self.tree.of_type(ast.Assign)
            if any(python_ast.dotted(item) == name for item in node.targets)
            and not any(isinstance(item, python_ast.LOOPS) for item in self.tree.ancestors(node))
            and ("." in name or self._scope(node) is self._scope(score))
        ]  # fmt: skip
        if len(found) != 1:
            return None
        value = found[0].value.operand if isinstance(found[0].value, ast.UnaryOp) else found[0].value
        is_infinite = isinstance(value, ast.Call) and python_ast.called_name(value) == "float"
        return found[0] if isinstance(value, ast.Constant) or is_infinite else None

    def _scope(self, node: ast.AST) -> object:
        return self.model.definitions.function_around(node)

    def _is_updated(self, name: str) -> bool:
        """Whether a comparison decides if a score is the best one so far."""
        compared = {
            python_ast.dotted(item)
            for node in self.tree.of_type(ast.Compare)
            if isinstance(node.ops[0], (ast.Lt, ast.Gt, ast.LtE, ast.GtE))
            for item in (node.left, *node.comparators)
        }
        return name in compared


if TYPE_CHECKING:
    from torchlint import Model
    from torchlint.syntax.python_ast import Site
    from torchlint.syntax.python_tree import PythonTree

_COUNTERS = LazyPattern(r"(?i)epoch|step|iter")
_EPOCH = LazyPattern(r"(?i)(cur_|start_)?epochs?")
_SHOWING = LazyPattern(r"(?i)^(print|format|info|debug|warning|log|write|set_description|print_log|logging|str)$")
_TUNING = LazyPattern(r"(?i)tun(e|ing)|pre_?train|transfer|init")
"""Words of conditions under which only the weights of a checkpoint matter."""
_CHECKPOINT = LazyPattern(r"(?i)ch?e?c?kpt|checkpoint|state|resume|saved|snapshot")


class Restarted(NamedTuple):
    """The loop over `loop` starts from the beginning although `name` received the saved epoch at `read`."""

    loop: Site
    name: str
    read: Site


class Unread(NamedTuple):
    """The loop over `loop` starts from the beginning, and nothing reads the entry `key` of the checkpoint at `load`."""

    loop: Site
    key: str
    load: Site
    saved: Site


class Overwritten(NamedTuple):
    """`name` received an entry of the checkpoint at `read`, but the statement at `site` starts it over in any case."""

    site: Site
    name: str
    read: Site


class OverwrittenEntries:
    """Finds entries of a checkpoint that a later statement overwrites before any code uses them."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.tree = model.tree

    def all(self) -> Iterator[Overwritten]:
        for statement in self.tree.of_type(ast.Assign):
            target = statement.targets[0]
            if len(statement.targets) == 1 and isinstance(target, ast.Name) and self._is_restored(statement):
                start = self._start(statement, target.id)
                if start is not None:
                    sites = python_ast.site_of(start), python_ast.site_of(statement.value)
                    yield Overwritten(sites[0], target.id, sites[1])

    def _is_restored(self, statement: ast.Assign) -> bool:
        """Whether a statement reads the score or the epoch of a checkpoint, in a function that loads a state."""
        name = python_ast.dotted(statement.targets[0])
        if not _reads_entry(statement.value) or not (_BEST.search(name) or _COUNTERS.search(name)):
            return False
        around = self.model.definitions.function_around(statement)
        loads = self.model.provenance.states.loads
        return any(self.model.definitions.function_around(call) is around for call, _ in loads)

    def _start(self, restored: ast.Assign, name: str) -> ast.Assign | None:
        """The statement behind the condition around a restored entry that sets its variable to a number."""
        block: ast.AST = restored
        for item in self.tree.ancestors(restored):
            if isinstance(item, ast.If):
                block = item
            elif not isinstance(item, (ast.Try, ast.With)):
                break
        if not isinstance(block, ast.If) or _TUNING.search(self.tree.code(block.test)):
            return None
        scope = self.tree.scope_around(restored)
        last = restored.end_lineno or 0
        uses = [item for item in python_ast.walk(scope) if isinstance(item, ast.Name) and item.id == name]
        later = sorted((item for item in uses if item.lineno > last), key=lambda item: (item.lineno, item.col_offset))
        for use in later:
            if isinstance(use.ctx, ast.Load):
                if not is_shown(use, self.tree):
                    return None
            else:
                found = self.tree.statement(use)
                is_number = isinstance(found, ast.Assign) and isinstance(found.value, (ast.Constant, ast.UnaryOp))
                if any(self._is_read_again(item) for item in later if item is not use):
                    return None  # only the second checkpoint continues a training
                is_behind = use.lineno > (block.end_lineno or 0) and self.tree.parent(found) is self.tree.parent(block)
                return found if is_number and is_behind and isinstance(found, ast.Assign) else None
        return None

    def _is_read_again(self, use: ast.Name) -> bool:
        """Whether a use is a target that receives an entry of a checkpoint."""
        statement = self.tree.statement(use)
        return isinstance(statement, ast.Assign) and use in statement.targets and bool(_reads_entry(statement.value))


class RestartedCounts:
    """Finds variables and attributes with the epoch of a checkpoint that no code continues from."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.tree = model.tree

    def all(self) -> Iterator[Restarted]:
        for statement in self.tree.of_type(ast.Assign):
            target = statement.targets[0]
            if len(statement.targets) > 1 or not isinstance(target, (ast.Name, ast.Attribute)):
                continue
            if _reads_counter(statement.value) and self._restores_optimizer(statement):
                loop = self._loop(target)
                if loop is not None and self._is_only_shown(target, loop):
                    code = self.tree.code(target)
                    yield Restarted(python_ast.site_of(loop.iter), code, python_ast.site_of(statement.value))

    def unread(self) -> Iterator[Unread]:
        """Loops behind the restored state of an optimizer, where no code reads the saved epoch."""
        name, saved = next(self._saved(), ("", None))
        if saved is None or self.model.reads_entry(name):
            return
        for call, owner in self.model.provenance.states.loads:
            is_optimizer = naming.looks_like_optimizer(python_ast.last_name(owner))
            if not is_optimizer or resumes.entries(call, self.model.definitions) is None:
                continue
            function = self.model.definitions.function_around(call)
            scope = function.node if function is not None else self.tree.module
            counted = [item for item in python_ast.walk(scope) if isinstance(item, ast.For) and _counts(item)]
            epochs = [item for item in counted if "epoch" in ast.unparse(item.target).lower()]
            if len(epochs) == 1 and epochs[0].lineno > call.lineno and _begins(epochs[0].iter):
                sites = [python_ast.site_of(item) for item in (epochs[0].iter, call, saved)]
                yield Unread(sites[0], name, sites[1], sites[2])
                return

    def _saved(self) -> Iterator[tuple[str, ast.expr]]:
        """The keys of a saved dictionary that contain the epoch, beside the state of an optimizer."""
        for call in self.tree.of_type(ast.Call):
            if self.model.definitions.named(call.func) != "torch.save" or not call.args:
                continue
            keys = call.args[0].keys if isinstance(call.args[0], ast.Dict) else []
            texts = {key.value: key for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)}
            if any(map(naming.looks_like_optimizer, texts)):
                yield from ((name, key) for name, key in texts.items() if _EPOCH.fullmatch(name))

    def _restores_optimizer(self, statement: ast.Assign) -> bool:
        """Whether the function around a statement also loads the state of an optimizer."""
        around = self.model.definitions.function_around(statement)
        loads = self.model.provenance.states.loads
        return any(
            self.model.definitions.function_around(call) is around
            and naming.looks_like_optimizer(python_ast.last_name(owner))
            for call, owner in loads
        )

    def _loop(self, target: ast.Name | ast.Attribute) -> ast.For | None:
        """The only loop over epochs or steps of the function or class, if it starts from the beginning."""
        method = self.model.definitions.method_around(target)
        scope: ast.AST = method.node if method is not None else self.tree.module
        if isinstance(target, ast.Attribute):
            if method is None or method.owner is None or not isinstance(target.value, ast.Name):
                return None
            scope = method.owner.node
        counted = [item for item in python_ast.walk(scope) if isinstance(item, ast.For) and _counts(item)]
        is_one = len(counted) == 1 and (isinstance(target, ast.Attribute) or counted[0].lineno > target.lineno)
        return counted[0] if is_one and _begins(counted[0].iter) else None

    def _is_only_shown(self, target: ast.Name | ast.Attribute, loop: ast.For) -> bool:
        """Whether code only prints or logs a number."""
        if isinstance(target, ast.Attribute):
            method = self.model.definitions.method_around(target)
            owner = method.owner if method is not None else None
            words = (f".{target.attr}".encode(),)
            if owner is None or next(self.model.importers(owner.name, words), None) is not None:
                return False
            uses: list[ast.expr] = [item for item in self.tree.of_type(ast.Attribute) if item.attr == target.attr]
        else:
            around = self.model.definitions.function_around(target)
            same = (item for item in self.tree.of_type(ast.Name) if item.id == target.id)
            uses = [item for item in same if self.model.definitions.function_around(item) is around]
            if target.id in python_ast.names_in(loop.target):
                uses = [item for item in uses if item.lineno < loop.lineno]
        read = [item for item in uses if isinstance(getattr(item, "ctx", None), ast.Load)]
        return all(is_shown(item, self.tree) for item in read)


def is_shown(node: ast.expr, tree: PythonTree) -> bool:
    """Whether code only prints or logs an expression."""
    for item in tree.ancestors(node):
        if isinstance(item, ast.Call):
            return bool(_SHOWING.search(python_ast.called_name(item)))
        if isinstance(item, (ast.stmt, ast.Compare)):
            return False
    return False


def _reads_counter(value: ast.expr) -> bool:
    """`checkpoint["epoch"]`, perhaps plus one."""
    return bool(_COUNTERS.search(_reads_entry(value)))


def _reads_entry(value: ast.expr) -> str:
    """The key of `checkpoint["epoch"]`, perhaps plus one."""
    node = value.left if isinstance(value, ast.BinOp) and isinstance(value.right, ast.Constant) else value
    if not isinstance(node, ast.Subscript) or not _CHECKPOINT.search(python_ast.last_name(node.value)):
        return ""
    return node.slice.value if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str) else ""


def _counts(loop: ast.For) -> bool:
    """Whether a loop iterates over epochs or steps by the name of its variable, and calls other code."""
    names = python_ast.names_in(loop.target)
    return any(_COUNTERS.search(name) for name in names) and any(
        isinstance(item, ast.Call) for statement in loop.body for item in python_ast.walk(statement)
    )


def _begins(over: ast.expr) -> bool:
    """`range(epochs)` or `range(1, epochs)`, perhaps in a progress bar."""
    calls = [item for item in python_ast.walk(over) if isinstance(item, ast.Call)]
    ranges = [item for item in calls if python_ast.called_name(item) in ("range", "trange")]
    if len(ranges) != 1 or any(
        python_ast.called_name(item) not in ("range", "trange", "tqdm", "len", "int") for item in calls
    ):
        return False
    given = ranges[0].args
    return len(given) == 1 or (len(given) == 2 and isinstance(given[0], ast.Constant))
