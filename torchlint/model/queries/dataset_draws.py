"""The global random generators that a dataset may draw from, as far as the text of the program shows them."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator

from torchlint.lazy_pattern import LazyPattern
from torchlint.model.definitions import ClassInfo, Definitions, FunctionInfo
from torchlint.model.queries import names, transforms, written
from torchlint.pytorch.api import TENSOR_METHODS
from torchlint.syntax.python_ast import arguments, dotted, is_literal, walk

_MOST = 60
"""Maximum number of functions that one dataset may reach."""
_PLAIN = frozenset(
    "os sys io re csv json math time glob copy pickle pathlib collections itertools functools warnings numpy torch "
    "torchvision PIL cv2 pandas h5py imageio tqdm builtins typing".split()
)
"""Packages that draw no numbers beside the functions named here."""
_OF_TORCH = LazyPattern(r"rand|normal|bernoulli|multinomial|poisson|dropout|distributions|init\.|nn\.[A-Z]")
_CALLABLE = LazyPattern(r"(?i)transf|aug|fn|func|sampl|process|rng|callable|hook|operat|generator|crop|dataset")
"""Names of parameters that may be functions or objects which draw."""
_NUMBER = LazyPattern(
    r"(?i)(^|_)(rate|size|num|number|prob|probability|ratio|count|frequency|freq|length|len|steps?)s?$"
    r"|^(num|n|is|use|with|do)_"
)
"""Names of parameters that are numbers or flags: `sample_rate`, `crop_size`, `use_augmentation`."""
_DRAWING = LazyPattern(
    r"(?i)aug|rand|sampl|shuff|choice|draw|jitter|noise|perturb|mix|uniform|normal|integers|permut|^transform|process"
    r"|apply|(?<!_)_$|crop|flip"
)
"""Names of methods that may draw."""

_RANDOM = LazyPattern(r"Rand|Jitter|Aug|Mix|Noise|Elastic|JPEG|Blur")
"""Transforms of torchvision that draw."""
_WITHOUT_DRAWS = frozenset({"torch.utils.data.TensorDataset", "torch.utils.data.dataset.TensorDataset"})
"""Datasets of PyTorch that draw no numbers."""
_RUNNING = frozenset("map filter getattr setattr exec eval __import__ vars globals".split())
"""Builtin functions that may run any other one."""


def generators_of(dataset: ast.expr, definitions: Definitions) -> frozenset[str] | None:
    """The generators that a dataset may draw from: `random`, `numpy.random`, `torch`; None if unknown."""
    made = written.value_of(dataset, definitions)
    if isinstance(made, ast.Call) and definitions.named(made.func) in _WITHOUT_DRAWS:
        return frozenset()
    classes = list(_classes(made, definitions))
    pending: list[ClassInfo | FunctionInfo] = [item for item, _ in classes if item is not None]
    found: set[str] = set()
    if not pending or any(item is None for item, _ in classes) or _is_changed(definitions):
        return None
    absent = _Absent([(item, call) for item, call in classes if item is not None])
    for item in pending:
        if len(pending) > _MOST:
            return None
        reached: list[ClassInfo | FunctionInfo] | None
        reached = _methods(item) if isinstance(item, ClassInfo) else _Body(item, absent).reached(found)
        if reached is None:
            return None
        pending += [new for new in dict.fromkeys(reached) if new not in pending]
    return frozenset(found)


def _is_changed(definitions: Definitions) -> bool:
    """Whether code sets a part of another object that may draw: `data.transform = ...`."""
    attributes = (node for node in definitions.tree.of_type(ast.Attribute) if isinstance(node.ctx, ast.Store))
    return any(dotted(node.value) != "self" and _CALLABLE.search(node.attr) for node in attributes)


def _classes(
    made: ast.expr, definitions: Definitions, depth: int = 2
) -> Iterator[tuple[ClassInfo | None, ast.expr | None]]:
    """The classes of the objects that an expression or a function of the program makes; None for an unknown one.

    Each with the call that makes the object.
    """
    target = _defined(made.func, definitions) if isinstance(made, ast.Call) else None
    if not isinstance(target, FunctionInfo) or not depth or target.is_generator or target.decorators:
        yield (target if isinstance(target, ClassInfo) else None), made
        return
    home = target.definitions
    nodes = list(names.own_nodes(target.node))
    for value in (item.value for item in nodes if isinstance(item, ast.Return)):
        stores = [
            node for node in nodes
            if isinstance(value, ast.Name) and isinstance(node, ast.Name) and node.id == value.id
            and isinstance(node.ctx, ast.Store)
        ]  # fmt: skip
        values = [names.bound_value(node, home.tree) for node in stores] or [value]
        for item in values:
            if item is None:
                yield None, None
            elif not is_literal(item, None):
                yield from _classes(item, home, depth - 1)


def _defined(node: ast.expr, definitions: Definitions) -> ClassInfo | FunctionInfo | None:
    """The class or function of the program that a name stands for at its place."""
    found = definitions.defined(dotted(node))
    if found is None and definitions.others is not None:
        found = definitions.others.anywhere(definitions.named(node), definitions)
    return found


def _methods(info: ClassInfo) -> list[ClassInfo | FunctionInfo] | None:
    """The methods of a class and its bases; None if a base of another package may draw."""
    found: list[ClassInfo | FunctionInfo] = []
    for item in info.ancestors():
        if isinstance(item, ClassInfo):
            found += item.methods.values()
        elif not item.startswith("torch.utils.data.") and item != "builtins.object" and item != "object":
            return None
    return found


class _Absent:
    """The parameters and attributes of datasets that surely are None: `Rows(path)`, with `transform=None`."""

    def __init__(self, made: list[tuple[ClassInfo, ast.expr | None]]) -> None:
        given = [(info.method("__init__"), call) for info, call in made]
        self._inits = {init for init, _ in given if init is not None}
        self._names = {
            init: [_without_value(init, call) for other, call in given if other is init] for init in self._inits
        }

    def parameters(self, function: FunctionInfo) -> frozenset[str]:
        """The parameters of a constructor that are None for each of the objects."""
        return frozenset.intersection(*self._names[function]) if function in self._inits else frozenset()

    def is_attribute(self, name: str, owner: ClassInfo) -> bool:
        """Whether a class only gives None to an attribute."""
        stores = list(_stores(name, owner))
        return bool(stores) and all(self._is_none(node, info) for node, info in stores)

    def _is_none(self, node: ast.Attribute, info: ClassInfo) -> bool:
        value = names.bound_value(node, info.definitions.tree)
        init = info.definitions.function_around(node)
        is_absent = isinstance(value, ast.Name) and init is not None and value.id in self.parameters(init)
        return is_absent or (value is not None and is_literal(value, None))


def _without_value(init: FunctionInfo, call: ast.expr | None) -> frozenset[str]:
    """The parameters of a constructor to which a call gives None, or nothing where None is the default."""
    if not isinstance(call, ast.Call) or isinstance(init.node, ast.Lambda):
        return frozenset()
    if any(isinstance(item, ast.Starred) for item in call.args) or any(item.arg is None for item in call.keywords):
        return frozenset()
    node = init.node.args
    places = [item.arg for item in (*node.posonlyargs, *node.args)]
    values: dict[str, ast.expr | None] = dict(zip(reversed(places), reversed(node.defaults), strict=False))
    values.update({item.arg: value for item, value in zip(node.kwonlyargs, node.kw_defaults, strict=True)})
    values.update(zip(places[1:], call.args, strict=False))
    values.update({item.arg: item.value for item in call.keywords if item.arg is not None})
    return frozenset(name for name, value in values.items() if value is not None and is_literal(value, None))


class _Body:
    """The code of one function that a dataset reaches."""

    def __init__(self, function: FunctionInfo, absent: _Absent) -> None:
        self._function = function
        self._absent = absent
        self._home = function.definitions
        self._nodes = list(walk(function.node))
        self._bound = {
            node.id for node in self._nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        self._bound |= {node.arg for node in self._nodes if isinstance(node, ast.arg)}

    def reached(self, drawn: set[str]) -> list[ClassInfo | FunctionInfo] | None:
        """The functions and classes that the code names; None if it may call an unknown one. Adds its draws."""
        absent = self._absent.parameters(self._function)
        present = [name for name in self._function.parameters if name not in absent]
        if any(_CALLABLE.search(name) and not _NUMBER.search(name) for name in present):
            return None
        found: list[ClassInfo | FunctionInfo] = []
        for node in self._nodes:
            if isinstance(node, ast.Call) and not (self._is_known_call(node.func) and self._has_known_steps(node)):
                return None
            if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
                name = names.imported(node, self._home)
                target = self._target(node)
                if target is not None:
                    found.append(target)
                elif isinstance(node, ast.Name) and not name and not self._is_local(node.id):
                    return None
                drawn |= _drawn(name)
        return found

    def _target(self, node: ast.expr) -> ClassInfo | FunctionInfo | None:
        name = dotted(node)
        if not name or name.partition(".")[0] in self._bound:
            return None
        return _defined(node, self._home)

    def _is_local(self, name: str) -> bool:
        return name in self._bound or hasattr(builtins, name)

    def _is_known_call(self, called: ast.expr) -> bool:
        """Whether a call runs a function that the search follows, or one that does not draw."""
        name = names.imported(called, self._home)
        if self._target(called) is not None:
            return True
        if name and "." in name and not name.startswith("builtins."):
            return name.partition(".")[0] in {*_PLAIN, "random"} and not name.startswith("torchvision.datasets.")
        if isinstance(called, ast.Name):
            return called.id not in {*self._bound, *_RUNNING} and hasattr(builtins, called.id)
        return isinstance(called, ast.Attribute) and self._is_known_method(called)

    def _is_known_method(self, called: ast.Attribute) -> bool:
        """Whether a method is one of the dataset, or surely does not draw."""
        owner, inner = self._function.owner, called.value
        while isinstance(inner, (ast.Subscript, ast.Call)):
            inner = inner.value if isinstance(inner, ast.Subscript) else inner.func
        own = self._function.parameters[:1] if owner is not None else []
        if owner is not None and dotted(called.value) in own:
            is_followed = owner.method(called.attr) is not None or self._is_made_here(called.attr, owner)
            return is_followed or self._absent.is_attribute(called.attr, owner)
        if _DRAWING.search(called.attr):
            return False
        if owner is None or dotted(inner).partition(".")[0] not in own:
            return True
        is_of_data = called.attr in TENSOR_METHODS or any(hasattr(kind, called.attr) for kind in (str, list, dict))
        return is_of_data or self._is_made_here(dotted(inner).split(".")[1], owner)

    def _has_known_steps(self, call: ast.Call) -> bool:
        """Whether a `Compose` or `Lambda` gets no function from a parameter."""
        if names.imported(call.func, self._home).rpartition(".")[2] not in ("Compose", "Lambda"):
            return True
        given = arguments(call)
        steps = [step for item in given for step in (item.elts if isinstance(item, (ast.List, ast.Tuple)) else [item])]
        steps = [step.value if isinstance(step, ast.Starred) else step for step in steps]
        return not any(isinstance(step, ast.Name) and step.id in self._function.parameters for step in steps)

    def _is_made_here(self, name: str, owner: ClassInfo) -> bool:
        """Whether every value of an attribute is the result of a call or a lambda, which the search follows."""
        stores = [names.bound_value(node, info.definitions.tree) for node, info in _stores(name, owner)]
        return bool(stores) and all(isinstance(value, (ast.Call, ast.Lambda)) for value in stores)


def _stores(name: str, owner: ClassInfo) -> Iterator[tuple[ast.Attribute, ClassInfo]]:
    """The places where a class or its bases set an attribute."""
    for info in (item for item in owner.ancestors() if isinstance(item, ClassInfo)):
        for node in walk(info.node):
            if isinstance(node, ast.Attribute) and node.attr == name and isinstance(node.ctx, ast.Store):
                yield node, info


def _drawn(name: str) -> set[str]:
    """The generators that an imported function may draw from; torchvision drew from `random` before 0.8."""
    package, _, rest = name.partition(".")
    if package == "torchvision":
        last = rest.rpartition(".")[2]
        return {"torch", "random"} if last in transforms.RANDOM or _RANDOM.search(last) else set()
    if package == "torch":
        return {"torch"} if _OF_TORCH.search(rest) else set()
    if name.startswith("numpy.random"):
        return {"numpy.random"}
    return {"random"} if package == "random" else set()
