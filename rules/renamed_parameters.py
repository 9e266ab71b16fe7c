"""Parameters looked up by names that a wrapper has changed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model import definitions
from torchlint.model.relations import provenance
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_RENAMING = ("replace(", "removeprefix(", "_orig_mod", ".module.", "startswith(", "[7:]")
"""Words in names of classes that remove a prefix."""
_READING = frozenset({"print", "len", "type", "isinstance", "list", "sorted", "str", "load_state_dict"})


class OtherNames(NamedTuple):
    """The network at `site` lacks the parameter prefix of the weights saved at `saved`."""

    site: Site
    name: str
    prefix: str
    saved: Site


class UnknownNames(NamedTuple):
    """`keeper` stores the parameter names of `made`, but looks up those of a wrapper at `site`."""

    site: Site
    keeper: str
    prefix: str
    made: Site


class RenamedParameters(Rule):
    """Parameters are looked up by names that a wrapper has changed.

    ## What it does
    Finds weights that are saved with a wrapper's prefix, `module.` from `DataParallel` or `_orig_mod.` from
    `torch.compile`, and loaded from the same path into a network without the wrapper. Also finds a weight average that
    is built from the plain network's `named_parameters()` and updated with the wrapped one.

    ## Why is this bad?
    No name matches. `load_state_dict` raises an error for every key, and with `strict=False` it loads nothing. An
    average that skips unknown names never changes, so the evaluation uses the initial weights.

    ## Example
    ```python
    import torch
    from torch import nn

    def train():
        model = nn.DataParallel(nn.Linear(4, 2))
        torch.save(model.state_dict(), "model.pt")

    def load():
        model = nn.Linear(4, 2)
        model.load_state_dict(torch.load("model.pt"))
    ```

    Use instead:
    ```python
    import torch
    from torch import nn

    def train():
        model = nn.DataParallel(nn.Linear(4, 2))
        torch.save(model.module.state_dict(), "model.pt")

    def load():
        model = nn.Linear(4, 2)
        model.load_state_dict(torch.load("model.pt"))
    ```
    """

    code = "TL322"
    category = Category.CORRECTNESS
    triggers = (
        (b"DataParallel", b"compile", b"DistributedDataParallel", b"DDP"),
        (b"load_state_dict", b"named_parameters"),
    )

    def ask(self) -> Iterator[OtherNames | UnknownNames]:
        for call in self.model.tree.of_type(ast.Call) if not self.model.is_test else ():
            method = call.func if isinstance(call.func, ast.Attribute) and len(call.args) == 1 else None
            if method is None:
                continue
            if method.attr == "load_state_dict" and self._is_unchecked(call):
                yield from self._other_names(call, method.value)
            else:
                yield from self._unknown_names(call, method)

    def _is_unchecked(self, load: ast.Call) -> bool:
        """Whether a load is strict, or no code checks which names it skips."""
        if not load.keywords:
            return True
        return self.model.tree.stands_alone(load) and all(item.arg == "strict" for item in load.keywords)

    def _other_names(self, load: ast.Call, network: ast.expr) -> Iterator[OtherNames]:
        """The places that load a wrapper's names into a network without it."""
        files = self.model.provenance.files
        given, key = load.args[0], ""
        if isinstance(given, ast.Subscript) and isinstance(given.slice, ast.Constant):
            key, given = str(given.slice.value), given.value
        read = files.value_at(given)
        made = files.value_at(network)
        made = provenance.itself(made) if made is not None else None
        if not isinstance(read, ast.Call) or self.model.definitions.named(read.func) != "torch.load":
            return
        if not isinstance(made, ast.Call) or not self.model.provenance.has_weights(made):
            return
        if self._is_passed_on(given, load):
            return
        for saved, call in files.saved_for(read):
            for name, value in files.entries(saved):
                is_state = isinstance(value, ast.Call) and python_ast.called_name(value) == "state_dict"
                if is_state and name == key and isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
                    if prefix := files.prefix(value.func.value):
                        place = python_ast.site_of(load)
                        yield OtherNames(place, self.model.tree.code(network), prefix, python_ast.site_of(call))

    def _is_passed_on(self, checkpoint: ast.expr, load: ast.Call) -> bool:
        """Whether code before `load` passes the checkpoint to a function, which may rename its weights in place."""
        around = self.model.tree.scope_around(load)
        calls = (node for node in python_ast.walk(around) if isinstance(node, ast.Call) and node.lineno < load.lineno)
        given = (item for call in calls if python_ast.called_name(call) not in _READING for item in call.args)
        names = (python_ast.dotted(item.value if isinstance(item, ast.Subscript) else item) for item in given)
        return isinstance(checkpoint, ast.Name) and checkpoint.id in names

    def _unknown_names(self, call: ast.Call, method: ast.Attribute) -> Iterator[UnknownNames]:
        """The places that pass a wrapper to an object with the names of the plain network."""
        wrapper = self.model.provenance.files.wrapper(call.args[0]) if isinstance(call.args[0], ast.Name) else None
        made = self.model.provenance.created(method.value) if wrapper is not None else None
        info = self.model.definitions.class_named(python_ast.dotted(made.func)) if isinstance(made, ast.Call) else None
        if wrapper is None or info is None or not isinstance(made, ast.Call) or not wrapper.args or not made.args:
            return
        begins, updates = info.method("__init__"), info.method(method.attr)
        if begins is None or updates is None or not self._goes_by_names(info, updates):
            return
        given, inner = made.args[0], wrapper.args[0]
        is_plain = made.lineno < wrapper.lineno and not self.model.provenance.files.prefix(given)
        if is_plain and python_ast.dotted(given) and python_ast.written_alike(given, inner):
            prefix = self.model.provenance.files.prefix_of(wrapper)
            yield UnknownNames(
                python_ast.site_of(call), self.model.tree.code(method.value), prefix, python_ast.site_of(made)
            )

    def _goes_by_names(self, info: definitions.ClassInfo, updates: definitions.FunctionInfo) -> bool:
        """Whether a class stores parameters by name, and a method looks up the names of its argument."""
        tree = info.definitions.tree
        if any(word in tree.code(info.node) for word in _RENAMING):
            return False
        methods = [item for item in info.methods.values() if item is not updates]
        names = [name for item in methods for name in _named_loops(item.node)]
        looked_up = (node for node in python_ast.walk(updates.node) if isinstance(node, ast.Subscript))
        own = set(_named_loops(updates.node))
        is_looked_up = any(isinstance(node.slice, ast.Name) and node.slice.id in own for node in looked_up)
        return bool(names) and is_looked_up

    # -- report ----------------------------------------------------------------------------------------

    def report_OtherNames(self, other: OtherNames) -> None:
        self.report(
            other.site,
            f"the names in the checkpoint start with `{other.prefix}`, but no parameter name of `{other.name}` does",
            related=[(other.saved, "a wrapper is saved here")],
            help="save the state of the module inside the wrapper: `model.module.state_dict()`",
        )

    def report_UnknownNames(self, unknown: UnknownNames) -> None:
        self.report(
            unknown.site,
            f"this wrapper's parameter names start with `{unknown.prefix}`, but `{unknown.keeper}` has no such names",
            related=[(unknown.made, "it is built from the plain network")],
            help="pass it the plain network, or build it from the wrapped one",
        )


def _named_loops(function: ast.AST) -> Iterator[str]:
    """The variables that hold the names of `named_parameters()`."""
    for node in python_ast.walk(function):
        over = node.iter if isinstance(node, (ast.For, ast.comprehension)) else None
        target = node.target if isinstance(node, (ast.For, ast.comprehension)) else None
        if isinstance(over, ast.Call) and python_ast.called_name(over) == "named_parameters":
            if isinstance(target, ast.Tuple) and isinstance(target.elts[0], ast.Name):
                yield target.elts[0].id
