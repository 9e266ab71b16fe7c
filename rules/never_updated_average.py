"""Weight averages and target networks that keep the weights they were created with."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import definitions
from torchlint.model.queries import uses
from torchlint.model.relations import provenance
from torchlint.pytorch import triggers
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint import Model

_AVERAGES = LazyPattern(r"(?i)(^|[^a-z])(ema|averaged|polyak|swa)([^a-z]|$)")
_TARGETS = LazyPattern(r"(?i)(^|_)(target|tgt)(_|$)")
_REWARDS = (b"gamma", b"discount", b"reward")
"""Words of code that learns values from rewards, whose target network must follow the trained one."""
_SAME = frozenset("eval train to cuda cpu half float requires_grad_ state_dict zero_grad".split())
"""Methods that change no weights."""
_LISTING = frozenset("parameters named_parameters buffers named_buffers state_dict items keys values".split())
"""Methods that list tensors."""
_SAFE = LazyPattern(r"^_?(save|update_bn|print|eval|evaluate|valid|validate|test|predict|sample)($|_)")
"""Names of functions that only run or save their arguments."""


class Stale(NamedTuple):
    """The average created at `site` is read at `use`, but nothing changes it."""

    site: python_ast.Site
    name: str
    use: python_ast.Site


class NeverUpdatedAverage(Rule):
    """A weight average or target network keeps the weights it was created with.

    ## What it does
    Finds an `AveragedModel`, an object of a class that averages weights, a deep copy named `ema`, and the target
    network in code that uses rewards. The function or class around it trains, and reads the copy, but never updates it.

    Not reported if an unknown function receives the object.

    ## Why is this bad?
    The program evaluates, saves or learns from the initial weights. The metrics stay at chance, or a value function
    learns from the targets of an untrained network.

    ## Example
    ```python
    import torch
    import torch.nn.functional as F
    from torch.optim.swa_utils import AveragedModel

    def train(model, loader):
        ema = AveragedModel(model)
        optimizer = torch.optim.Adam(model.parameters())
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        torch.save(ema.state_dict(), "ema.pt")
    ```

    Use instead:
    ```python
    import torch
    import torch.nn.functional as F
    from torch.optim.swa_utils import AveragedModel

    def train(model, loader):
        ema = AveragedModel(model)
        optimizer = torch.optim.Adam(model.parameters())
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            ema.update_parameters(model)
        torch.save(ema.state_dict(), "ema.pt")
    ```

    ## References
    - [Weight averaging](https://docs.pytorch.org/docs/stable/optim.html#weight-averaging-swa-and-ema)
    """

    code = "TL342"
    category = Category.CORRECTNESS
    triggers = (
        triggers.STEP,
        triggers.BACKWARD,
        (b"AveragedModel", b"ema", b"EMA", b"Ema", b"target", b"tgt", b"polyak"),
    )

    def ask(self) -> Iterator[Stale]:
        for statement in self.model.tree.of_type(ast.Assign) if not self.model.is_test else ():
            target, made = statement.targets[0], provenance.itself(statement.value)
            place = python_ast.dotted(target)
            if not place or not isinstance(made, ast.Call) or not self._is_average(place, made):
                continue
            read = _CopyUses(self.model, target, made).only_read()
            if read is not None:
                yield Stale(python_ast.site_of(target), place, python_ast.site_of(read))

    def _is_average(self, place: str, made: ast.Call) -> bool:
        """Whether a call creates a copy that training must update."""
        name = self.model.definitions.named(made.func)
        if name == "torch.optim.swa_utils.AveragedModel":
            return True
        last = place.rpartition(".")[2]
        is_target = bool(_TARGETS.search(last)) and any(word in self.model.tree.source.code for word in _REWARDS)
        if name == "copy.deepcopy":
            return bool(_AVERAGES.search(last)) or is_target
        if is_target and any(python_ast.dotted(item.target) == place for item in self.model.provenance.copies):
            return self.model.provenance.has_weights(made)
        info = self.model.definitions.class_named(python_ast.dotted(made.func))
        return info is not None and any(_averages(method) for method in info.methods.values())

    def report_Stale(self, stale: Stale) -> None:
        self.report(
            stale.site,
            f"`{stale.name}` is never updated: it keeps the weights it was created with",
            related=[(stale.use, "it is used here")],
            help="update it after each step of the optimizer",
        )


class _CopyUses:
    """The uses of the object that the call `made` creates for the variable or attribute `target`."""

    def __init__(self, model: Model, target: ast.expr, made: ast.Call) -> None:
        self.model = model
        self.target = target
        self.made = made

    def only_read(self) -> ast.expr | None:
        """A use that runs or saves the object, if its code trains and no use may change it."""
        function = self.model.definitions.function_around(self.target)
        found = uses.of_place(self.target, self.model)
        others = [item for item in found or () if item is not self.target]
        kinds = [self._kind(item) for item in others]
        scope = function.node if function is not None and isinstance(self.target, ast.Name) else self.model.tree.module
        if found is None or None in kinds or "read" not in kinds or not _steps(scope):
            return None
        return others[kinds.index("read")]

    def _kind(self, use: ast.expr) -> str | None:
        """`read` for a use that runs or saves the object, an empty text for one without effect, None for others."""
        parent = self.model.tree.parent(use)
        if not isinstance(getattr(use, "ctx", None), ast.Load):
            return "" if _is_none(getattr(parent, "value", None)) else None
        if isinstance(parent, (ast.If, ast.IfExp, ast.BoolOp)) or _compares_with_none(parent):
            return "" if not isinstance(parent, ast.IfExp) or parent.test is use else None
        if isinstance(parent, ast.Call):
            copies = self.model.provenance.copies if self._is_first(use) else ()
            if any(copy.node is parent and copy.target is use for copy in copies):
                return ""
            return "read" if parent.func is use or _SAFE.search(python_ast.called_name(parent)) else None
        if not isinstance(parent, ast.Attribute):
            return None
        call = self.model.tree.parent(parent)
        if not isinstance(call, ast.Call) or call.func is not parent:
            return self._kind(parent)
        if parent.attr in _SAME:
            return "read" if parent.attr == "state_dict" else ""
        if parent.attr == "load_state_dict":
            return "" if self._is_first(use) else None
        if parent.attr in ("parameters", "named_parameters"):
            return "" if self._only_freezes(call) else None
        info = self.model.definitions.class_named(python_ast.dotted(self.made.func))
        if info is not None and _stores(info, parent.attr):
            return "read"
        method = info.methods.get(parent.attr) if info is not None else None
        if info is not None and method is not None and _copies_from(method, info):
            return "read"
        return "" if method is not None and not _averages(method) and not _calls_own(method) else None

    def _is_first(self, use: ast.expr) -> bool:
        """Whether a use is in the code that creates the object, outside loops."""
        is_here = self.model.tree.function_around(use) is self.model.tree.function_around(self.made)
        return is_here and not self.model.tree.loop_around(use)

    def _only_freezes(self, call: ast.Call) -> bool:
        """`for p in ema.parameters(): p.requires_grad = False`."""
        loop = self.model.tree.parent(call)
        if not isinstance(loop, ast.For) or loop.iter is not call or len(loop.body) != 1:
            return False
        return "requires_grad" in self.model.tree.code(loop.body[0])


def _averages(method: definitions.FunctionInfo) -> bool:
    """Whether a method _averages weights in a loop."""
    loops = [item for item in python_ast.walk(method.node) if isinstance(item, ast.For)]
    relation = provenance.Provenance(method.definitions)
    return any(True for loop in loops for _ in relation.average_updates(loop))


def _stores(info: definitions.ClassInfo, name: str) -> bool:
    """Whether a class stores a network under a name: `ema.module(x)`."""
    init = info.methods.get("__init__")
    nodes = python_ast.walk(init.node) if init is not None else ()
    stores = (item for item in nodes if isinstance(item, ast.Attribute) and isinstance(item.ctx, ast.Store))
    return any(item.attr == name for item in stores)


def _calls_own(method: definitions.FunctionInfo) -> bool:
    """Whether a method calls another one of its object, or of a part of it, except to list tensors."""
    calls = (item for item in python_ast.walk(method.node) if isinstance(item, ast.Call))
    names = (python_ast.dotted(item.func) for item in calls)
    return any(name.startswith("self.") and name.rpartition(".")[2] not in _LISTING for name in names)


def _copies_from(method: definitions.FunctionInfo, info: definitions.ClassInfo) -> bool:
    """Whether a method only reads the tensors that another one of its object averages: `p.copy_(self.shadow[name])`."""
    if _averages(method) or _calls_own(method):
        return False
    relation = provenance.Provenance(info.definitions)
    loops = (
        item for other in info.methods.values() for item in python_ast.walk(other.node) if isinstance(item, ast.For)
    )
    names = {update.name.partition("[")[0] for loop in loops for update in relation.average_updates(loop)}
    read = python_ast.names_read(method.node)
    stored = (item for item in python_ast.walk(method.node) if isinstance(item, (ast.Attribute, ast.Subscript)))
    changed = {ast.unparse(item).partition("[")[0] for item in stored if not isinstance(item.ctx, ast.Load)}
    return any(name.startswith("self.") and name in read and name not in changed for name in names)


def _is_none(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _compares_with_none(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Compare) and _is_none(node.comparators[0])


def _steps(scope: ast.AST) -> bool:
    calls = (item for item in python_ast.walk(scope) if isinstance(item, ast.Call))
    return any(python_ast.called_name(item) == "step" for item in calls)
