"""Dropout that `eval()` does not switch off."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Confidence, Rule, edits
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import definitions
from torchlint.model.queries import given, one_mode, variables
from torchlint.pytorch import api, binding, table, triggers
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.index import FileIndex

_LAYERS = LazyPattern(r"torch\.nn(\.modules\.dropout)?\.Dropout[123]?d?$")
_CALL = rb"(?<!self\.)\bdropout[123]?d?[\s)]*\("
_ATTENTION = "torch.nn.functional.scaled_dot_product_attention"
_ATTENTION_RATE = b"dropout_p"
_WRITTEN_CALL = LazyPattern(_CALL + rb"((?:[^()]|\([^()]*\))*)\)")
_ANY_CALL = LazyPattern(_CALL)
_ALIAS = LazyPattern(rb"\bdropout[123]?d?\s+as\b")
_LOCAL_LAYER = LazyPattern(rb"(?m)\bDropout[123]?d?\s*\(.*\)\s*\(|^[ \t]*\w+\s*=\s*[\w.]*\bDropout[123]?d?\s*\(")
_OWN_NAME = LazyPattern(r"^(?!Random).*(Dropout|DropPath|DropConnect|DropBlock|StochasticDepth)")
_OWN_MODE = LazyPattern(r"(?i)train|eval|infer|test|mode|determin")
_DRAWS = frozenset({"bernoulli", "bernoulli_", "rand", "rand_like"})
_OWN_CLASS = LazyPattern(rb"(?m)^[ \t]*class \w*(Drop|StochasticDepth)")


class AlwaysDrops(NamedTuple):
    """`call` drops in evaluation: a function without the mode, or (`made`) a layer that nothing can switch."""

    call: python_ast.Site
    made: python_ast.Site | None
    is_sure: bool = True
    """Whether `forward` itself makes the layer, with a rate that never changes."""


class OwnDropout(NamedTuple):
    """`forward` of the module `owner` draws a mask at `draw` in both modes."""

    draw: python_ast.Site
    owner: str


class DropoutIgnoresMode(Rule):
    """Dropout that `eval()` does not switch off.

    ## What it does
    Finds dropout that also runs in evaluation mode:

    - `F.dropout`, `F.dropout1d`, `F.dropout2d` or `F.dropout3d` in a method of a module, without the argument
      `training`
    - an `nn.Dropout` with a constant rate that `forward` creates and calls
    - `F.scaled_dot_product_attention` with the same `dropout_p` in both modes
    - a module named as dropout that draws a mask in `forward` and never reads `self.training`

    In methods other than `forward`, the dropout is often deliberate. These findings need `--preview`.

    ## Why is this bad?
    Validation scores and predictions are random, and worse than without dropout. The argument `training` is True by
    default, and a new layer is in training mode. So both drop elements even after `model.eval()`.

    ## Example
    ```python
    import torch.nn.functional as F
    from torch import nn

    class Head(nn.Module):
        def __init__(self):
            super().__init__()
            self.out = nn.Linear(16, 4)

        def forward(self, h):
            return self.out(F.dropout(h, p=0.5))
    ```

    Use instead:
    ```python
    import torch.nn.functional as F
    from torch import nn

    class Head(nn.Module):
        def __init__(self):
            super().__init__()
            self.out = nn.Linear(16, 4)

        def forward(self, h):
            return self.out(F.dropout(h, p=0.5, training=self.training))
    ```

    ## Fix safety
    The fix adds `training=self.training`. It is unsafe because it changes the output of the module in evaluation.

    ## What verify shows
    `torchlint verify` checks whether the line draws random numbers while its module is in evaluation mode. It confirms
    the finding if it draws such numbers. It refutes the finding if it draws none.

    ## References
    - [torch.nn.functional.dropout](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.dropout.html):
      "training: apply dropout if is True. Default: True"
    """

    code = "TL310"
    category = Category.CORRECTNESS
    triggers = ((*triggers.DROPOUT, b"Dropout", _ATTENTION_RATE, b"Drop"), (b"functional", b"Dropout", b"Drop"))

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        """Whether a function call lacks the mode, as far as its arguments show, or calls a layer or local object."""
        code = index.code
        if _ATTENTION_RATE in code or _ALIAS.search(code) or _LOCAL_LAYER.search(code) or _OWN_CLASS.search(code):
            return True
        written = [match[1] for match in _WRITTEN_CALL.finditer(code)]
        return len(written) < len(_ANY_CALL.findall(code)) or any(b"training" not in item for item in written)

    def ask(self) -> Iterator[AlwaysDrops | OwnDropout]:
        if _OWN_CLASS.search(self.model.tree.source.code) and not self.model.is_test:
            yield from self._own_layers()
        for call in self.model.tree.of_type(ast.Call):
            method = self.model.definitions.method_around(call)
            if method is None:
                continue
            made = self._layer_called(call, method)
            if made is not None or self._drops(call, method):
                is_meant = self._is_one_view(call, method) or self._is_asked_for(call, method)
                is_meant = is_meant or self._modes.runs_in_one(call, method)
                if self._may_be_evaluated(method) and not is_meant:
                    is_sure = made is None or self._is_as_written(made, method)
                    yield AlwaysDrops(python_ast.site_of(call), made, is_sure)

    def _own_layers(self) -> Iterator[OwnDropout]:
        """Modules named as dropout whose `forward` draws random numbers and whose class never reads the mode."""
        for info in self.model.definitions.classes.values():
            forward = info.methods.get("forward")
            if forward is None or not _OWN_NAME.search(info.name) or not self._may_be_evaluated(forward):
                continue
            calls = (node for node in python_ast.walk(forward.node) if isinstance(node, ast.Call))
            draw = next((call for call in calls if python_ast.called_name(call) in _DRAWS), None)
            nodes = python_ast.walk(info.node)
            words = {str(getattr(node, field, "")) for node in nodes for field in ("attr", "id", "arg")}
            reads_mode = any(map(_OWN_MODE.search, {*words, *info.methods, info.name}))
            if draw is not None and not reads_mode and not self._modes.runs_in_one(draw, forward):
                yield OwnDropout(python_ast.site_of(draw), info.name)

    @cached_property
    def _modes(self) -> one_mode.OneMode:
        return one_mode.OneMode(self.model)

    def _is_as_written(self, made: python_ast.Site, method: definitions.FunctionInfo) -> bool:
        """Whether `forward` makes a layer with a rate that nothing can switch off."""
        layer = self.model.tree.node(made)
        rate = next(iter(python_ast.arguments(layer)), None) if isinstance(layer, ast.Call) else None
        is_constant = rate is None or (isinstance(rate, ast.Constant) and bool(rate.value))
        return method.name == "forward" and (is_constant or not self._varies(rate, method))

    def _may_be_evaluated(self, method: definitions.FunctionInfo) -> bool:
        """Whether a function is a method of a module that can be evaluated as usual."""
        owner = method.owner
        if owner is None or not method.is_method or method.name == "__init__":
            return False
        return self.model.program.is_module_class(owner) and not any(
            one_mode.ON_PURPOSE.search(name) for name in (owner.name, method.name)
        )

    def _drops(self, call: ast.Call, method: definitions.FunctionInfo) -> bool:
        """Whether a call is a PyTorch function that drops without the mode, at a rate independent of the mode."""
        name = self.model.definitions.named(call.func)
        if name == _ATTENTION:
            rate = _attention_rate(call)
            return rate is not None and not self._varies(rate, method)
        known = table.function(name)
        if name not in api.DROPPING or known is None or _has_stars(call):
            return False
        keywords = {item.arg: item.value for item in call.keywords if item.arg is not None}
        bound = binding.bind(known.parameters, call.args, keywords)
        return bound.get(api.DROPPING[name]) is None and not self._varies(bound.get("p"), method)

    def _is_one_view(self, call: ast.Call, method: definitions.FunctionInfo) -> bool:
        """Whether a method drops elements of one value repeatedly, to get several views for a loss."""
        seen = call.args[0] if call.args else None
        if not isinstance(seen, ast.Name) or variables.bindings(seen.id, call, self.model.definitions):
            return False
        alike = [
            node
            for node in python_ast.walk(method.node)
            if isinstance(node, ast.Call) and ast.dump(node) == ast.dump(call)
        ]
        return len(alike) > 1

    def _is_asked_for(self, call: ast.Call, method: definitions.FunctionInfo) -> bool:
        """Whether a call is under a condition that is false unless a caller asks: `forward(self, x, perturb=False)`."""
        defaults = definitions.defaults_of(method.node)
        off = {name for name, value in defaults.items() if python_ast.is_literal(value, False)}
        around = (item for item in self.model.tree.ancestors(call) if isinstance(item, (ast.If, ast.IfExp)))
        return any(python_ast.dotted(item.test) in off for item in around)

    def _varies(self, rate: ast.expr | None, method: definitions.FunctionInfo) -> bool:
        """Whether a rate is 0 or may be 0 in evaluation, by its name or because other code sets it."""
        if rate is None or isinstance(rate, ast.Constant):
            return isinstance(rate, ast.Constant) and not rate.value
        names = python_ast.names_read(rate)
        if any(one_mode.NAMES.search(name) for name in names):
            return True
        owner, last = method.owner, {name.rpartition(".")[2] for name in names}
        if owner is not None and {"train", "eval", *last} & owner.methods.keys():
            return True
        known = given.values_of(rate, self.model) if isinstance(rate, ast.Attribute) else []
        if known and not any(isinstance(item, ast.Constant) and item.value for item in known):
            return True
        if isinstance(rate, ast.Attribute) and self._is_set_by_others(rate.attr):
            return True
        return any(isinstance(node, ast.Name) and node.id in self._bound_in(method) for node in python_ast.walk(rate))

    def _is_set_by_others(self, name: str) -> bool:
        """`model.rnn.dropout = 0`, in code that holds the module, or in a method other than its `__init__`."""
        return any(
            python_ast.dotted(node.value) != "self" or self._is_outside_init(node)
            for node in self.model.stores_of(name)
        )

    def _is_outside_init(self, node: ast.AST) -> bool:
        method = self.model.definitions.method_around(node)
        return method is not None and method.name != "__init__"

    def _bound_in(self, method: definitions.FunctionInfo) -> set[str]:
        """The names that a method assigns, except its own object: their values may depend on the mode."""
        if method not in self._bound:
            assigned = self.model.definitions.names_assigned([method.node])
            self._bound[method] = {*method.parameters[1:], *assigned}
        return self._bound[method]

    @cached_property
    def _bound(self) -> dict[definitions.FunctionInfo, set[str]]:
        return {}

    def _layer_called(self, call: ast.Call, method: definitions.FunctionInfo) -> python_ast.Site | None:
        """The creation of the dropout layer in a call, if the method creates it and only calls it."""
        if isinstance(call.func, ast.Call):
            return python_ast.site_of(call.func) if self._is_layer(call.func) else None
        if not isinstance(call.func, ast.Name):
            return None
        name, definitions = call.func.id, self.model.definitions
        statements = [self.model.tree.parent(node) for node in variables.bindings(name, call, definitions)]
        assigned = statements[0] if len(statements) == 1 else None
        if not isinstance(assigned, ast.Assign) or not self._is_layer(assigned.value):
            return None
        reads = [(node, self.model.tree.parent(node)) for node in variables.reads(name, call, definitions)]
        is_only_called = all(isinstance(around, ast.Call) and around.func is node for node, around in reads)
        return python_ast.site_of(assigned.value) if is_only_called else None

    def _is_layer(self, node: ast.expr) -> bool:
        """Whether an expression creates a PyTorch dropout layer with a rate above zero."""
        if not isinstance(node, ast.Call) or not _LAYERS.match(self.model.definitions.named(node.func)):
            return False
        rates = python_ast.arguments(node)
        return not (rates and isinstance(rates[0], ast.Constant) and rates[0].value == 0) and not any(
            one_mode.NAMES.search(name) for item in rates for name in python_ast.names_read(item)
        )

    # -- report ---------------------------------------------------------------------------------------

    def report_OwnDropout(self, own: OwnDropout) -> None:
        self.report(
            own.draw,
            f"`{own.owner}` still drops elements after `eval()`: it never reads `self.training`",
            help="return the input unchanged if `self.training` is False",
        )

    def report_AlwaysDrops(self, drops: AlwaysDrops) -> None:
        if drops.made is not None:
            self.report(
                drops.call,
                "this new dropout layer is always in training mode: it still drops elements after `eval()`",
                related=[(drops.made, "the layer is created here")],
                help="create it in `__init__`, as an attribute of the module",
                confidence=Confidence.HIGH if drops.is_sure else Confidence.LOW,
            )
            return
        call = self.model.tree.node(drops.call)
        assert isinstance(call, ast.Call)
        name = python_ast.called_name(call)
        rate = _attention_rate(call)
        if rate is not None:
            self.report(
                python_ast.site_of(rate),
                f"`{name}` still drops attention weights after `eval()`: it does not know the mode of the module",
                help="pass 0 in evaluation: `dropout_p=rate if self.training else 0.0`",
                fix=self._attention_fix(rate),
            )
            return
        self.report(
            drops.call,
            f"`{name}` without `training` still drops elements after `eval()`",
            help="pass `training=self.training`",
            fix=self._fix(drops.call),
        )

    def _attention_fix(self, rate: ast.expr) -> edits.Change | None:
        """A rate of 0 in evaluation."""
        site = python_ast.site_of(rate)
        method = self.model.definitions.function_around(rate)
        written, code = self.written(site), self.model.tree.code(site)
        if written is None or method is None or not method.is_method or isinstance(rate, ast.IfExp) or "\n" in code:
            return None
        content = f"{code} if {method.parameters[0]}.training else 0.0"
        return edits.Change("drop in training only", [edits.Replace(written, content)])

    def _fix(self, site: python_ast.Site) -> edits.Change | None:
        """The argument `training` after the others."""
        call = self.model.tree.node(site)
        method = self.model.definitions.function_around(call)
        written = self.written(site)
        if written is None or method is None or not method.is_method:
            return None
        code = self.model.tree.code(site)[:-1].rstrip().removesuffix(",")
        content = f"{code}, training={method.parameters[0]}.training)"
        return (
            edits.Change("pass the mode of the module", [edits.Replace(written, content)]) if "\n" not in code else None
        )


def _attention_rate(call: ast.Call) -> ast.expr | None:
    """The argument `dropout_p` of a call."""
    return next((item.value for item in call.keywords if item.arg == "dropout_p"), None)


def _has_stars(call: ast.Call) -> bool:
    """Whether some arguments of a call come from `*` or `**`."""
    return any(isinstance(item, ast.Starred) for item in call.args) or any(item.arg is None for item in call.keywords)
