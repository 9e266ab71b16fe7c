"""Provenance: the origin of modules and parameters, names for the same object, and replacements."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import chain

from torchlint.model.definitions import ClassInfo, Definitions, FunctionInfo, all_parameters, defaults_of
from torchlint.model.parameterless import is_parameterless
from torchlint.model.queries import callees, names, variables
from torchlint.model.queries.autograd_functions import returns_of
from torchlint.model.relations import answer
from torchlint.model.relations.provenance.averages import AverageUpdate, average_updates
from torchlint.model.relations.provenance.copies import UPDATES, Copies, Copy, given_for
from torchlint.model.relations.provenance.drawn import Drawn
from torchlint.model.relations.provenance.files import Files
from torchlint.model.relations.provenance.flags import FlagOfModule, ModuleFlags
from torchlint.model.relations.provenance.modules import Modules
from torchlint.model.relations.provenance.rebound import Rebounds
from torchlint.model.relations.provenance.states import States
from torchlint.model.values import Answer
from torchlint.pytorch import naming, stateful_modules
from torchlint.syntax.python_ast import (
    LOOPS,
    SCOPES,
    TRIES,
    Site,
    arguments,
    called_name,
    dotted,
    site_of,
    walk,
    without_calls,
    written_alike,
)

_MODULES = frozenset({"torch.nn.Module", "torch.nn.modules.Module", "torch.nn.modules.module.Module"})
_LAYER_NAMES = ("layer", "block", "cell", "conv", "linear", "mlp", "encoder", "decoder", "attention")
"""Parameter names that stand for layers with weights."""
_PLAIN_LAYER_NAMES = ("norm", "act", "nonlin", "non_lin", "relu", "pool", "drop", "mask", "upsampl", "pad", "transpose")
"""Words in names of layers that may have no weights."""
_SAME = frozenset("to cuda cpu half float double bfloat16 train eval requires_grad_".split())
"""Methods of a module that return the module."""


class Provenance:
    """Answers where modules and parameters come from."""

    def __init__(self, definitions: Definitions) -> None:
        self.definitions = definitions
        self._stores: dict[ClassInfo, defaultdict[str, list[ast.Attribute]]] = {}
        """The assignments to attributes in each class, by name."""

    def answers(self) -> Iterator[answer.Answer]:
        """The copies of weights, and the lost states."""
        code = self.definitions.tree.code
        for copy in self.copies:
            target, source, same = code(copy.target), code(copy.source), self.same(copy.target, copy.source)
            if same is Answer.UNKNOWN:
                text = f"the weights of `{source}` go into `{target}`, which is perhaps the same network"
            else:
                one = "two networks" if same is Answer.NO else "one network"
                text = f"the weights of `{source}` go into `{target}`: {one}"
            yield answer.Answer(site_of(copy.node), text)
        for site, place, load in self.states.discarded():
            lines = answer.lines(self.definitions.tree, [load])
            yield answer.Answer(site, f"`{place}` is created again; the state that {lines} loaded is lost")

    def average_updates(self, loop: ast.For) -> Iterator[AverageUpdate]:
        """The averages of weights that one iteration changes, with the shares of the old and the new weights."""
        return average_updates(loop, self.definitions)

    def module_flags(self) -> Iterator[FlagOfModule]:
        """The assignments of `requires_grad` to modules, whose parameters ignore it."""
        return ModuleFlags(self.definitions, self.modules).answers()

    def created(self, node: ast.expr) -> ast.expr | None:
        """The expression that creates the value of a name.

        The name is a variable bound once, or an attribute that its class assigns once. A call that returns the module
        itself, `net.to(device)`, counts as the module.
        """
        for _ in range(8):  # names of names
            node = itself(node)
            value = self._value(node)
            if value is None:
                break
            node = value
        return None if isinstance(node, (ast.Name, ast.Attribute)) else node

    def bound_at(self, node: ast.expr) -> Site | None:
        """The place that gives a name its value, if there is only one."""
        value = self._value(node)
        return site_of(value) if value is not None else None

    def _value(self, node: ast.expr) -> ast.expr | None:
        if isinstance(node, ast.Name):
            return names.only_value(node, self.definitions)
        method = self.definitions.method_around(node) if isinstance(node, ast.Attribute) else None
        if method is None or method.owner is None or not isinstance(node, ast.Attribute):
            return None
        if dotted(node.value) not in method.parameters[:1]:
            return None
        return self._assigned(method.owner, node.attr)

    def assigned_anywhere(self, node: ast.Attribute) -> ast.expr | None:
        """The same for an attribute of any object, from the file's only assignment to an attribute of this name."""
        method = self.definitions.method_around(node)
        return self._assigned(method.owner, node.attr) if method is not None and method.owner is not None else None

    def given_by_callers(self, node: ast.expr, files: Iterable[Definitions]) -> list[tuple[ast.expr, Definitions]]:
        """The expressions that create an attribute's value where this file, or one of some others, makes the object.

        The attribute keeps a parameter of `__init__`. A call of a function of the program counts as what it returns.
        Empty if one of the expressions is not clear.
        """
        method, kept = self.definitions.method_around(node), self._value(node)
        init = method.owner.method("__init__") if method is not None and method.owner is not None else None
        if init is None or not isinstance(kept, ast.Name) or kept.id not in init.parameters[1:]:
            return []
        found: list[tuple[ast.expr, Definitions]] = []
        for file in (self.definitions, *files):
            created = Provenance(file).created
            given = given_for(init, kept.id, file)
            made = [item for item in map(created, given) if item is not None]
            built = [self._built(item, file) for item in made]
            is_clear = len(made) == len(given) and all(built) and (given or file is self.definitions)
            if not is_clear:
                return []
            found += chain.from_iterable(built)
        return found

    def _built(self, made: ast.expr, file: Definitions, depth: int = 3) -> list[tuple[ast.expr, Definitions]]:
        """An expression, or those that the called function of the program returns; empty if one is not clear."""
        called = self._function_of(made, file)
        if called is None:
            return [(made, file)]
        home, values = called.definitions, returns_of(called) if depth and not called.is_generator else []
        behind = [Provenance(home).created(item) if item is not None else None for item in values]
        built = [self._built(item, home, depth - 1) if item is not None else [] for item in behind]
        return list(chain.from_iterable(built)) if all(built) else []

    def _assigned(self, owner: ClassInfo, name: str) -> ast.expr | None:
        """The expression a class assigns to an attribute, if there is only one."""
        stores = self._stores_in(owner, name)
        return names.bound_value(stores[0], self.definitions.tree) if len(stores) == 1 else None

    def _stores_in(self, owner: ClassInfo, name: str) -> list[ast.Attribute]:
        """The assignments to an attribute in a class."""
        if owner not in self._stores:
            found: defaultdict[str, list[ast.Attribute]] = defaultdict(list)
            for item in walk(owner.node):
                if isinstance(item, ast.Attribute) and isinstance(item.ctx, ast.Store):
                    found[item.attr].append(item)
            self._stores[owner] = found
        return self._stores[owner][name]

    def origin(self, node: ast.expr) -> object:
        """The expression that creates the object of a name, or the function parameter that it is.

        Two names of one object have the same origin. None if not known.
        """
        for _ in range(8):
            node = itself(node)
            if isinstance(node, ast.Call) and self.definitions.named(node.func) == "copy.copy" and node.args:
                node = node.args[0]
                continue
            function = self.definitions.function_around(node)
            if isinstance(node, ast.Name) and function is not None and node.id in function.parameters:
                return self._parameter(function, node)
            value = self._value(node)
            if value is None:
                return node if isinstance(node, ast.Call) else self._origin_of_result(node)
            if self._is_under_condition(value):
                return None
            node = value
        return node if isinstance(node, ast.Call) else None

    def _origin_of_result(self, node: ast.expr) -> object:
        """The origin of one of several results, with the call: of `a` in `a, b = make()`, in a function `make`."""
        store = self._only_store(node)
        results = self.definitions.tree.parent(store) if store is not None else None
        statement = self.definitions.tree.parent(results) if isinstance(results, ast.Tuple) else None
        if store is None or not isinstance(results, ast.Tuple) or not isinstance(statement, ast.Assign):
            return None
        called = self._function_of(statement.value, self.definitions)
        returned = returns_of(called) if called is not None and not called.is_generator else []
        value = returned[0] if len(returned) == 1 else None
        if called is None or not isinstance(value, ast.Tuple) or len(value.elts) != len(results.elts):
            return None
        inner = Provenance(called.definitions).origin(value.elts[results.elts.index(store)])
        return (statement.value, inner) if inner is not None and not self._is_under_condition(statement) else None

    def _only_store(self, node: ast.expr) -> ast.expr | None:
        """The place that binds a variable in its function, or an attribute in its class, if there is only one."""
        if isinstance(node, ast.Name):
            stores: list[ast.expr] = [*variables.bindings(node.id, node, self.definitions)]
        else:
            method = self.definitions.method_around(node) if isinstance(node, ast.Attribute) else None
            if method is None or method.owner is None or not isinstance(node, ast.Attribute):
                return None
            if dotted(node.value) not in method.parameters[:1]:
                return None
            stores = list(self._stores_in(method.owner, node.attr))
        return stores[0] if len(stores) == 1 else None

    def function_called(self, call: ast.expr, file: Definitions | None = None) -> FunctionInfo | None:
        """The function of the program that an expression of this file, or of another one, calls."""
        return self._function_of(call, file or self.definitions)

    def _function_of(self, call: ast.expr, file: Definitions) -> FunctionInfo | None:
        """The function of the program that an expression calls."""
        name, others = file.named(call.func) if isinstance(call, ast.Call) else "", self.definitions.others
        called = file.defined(name) or (others.anywhere(name, file) if others is not None and name else None)
        return called if isinstance(called, FunctionInfo) else None

    def _parameter(self, function: FunctionInfo, node: ast.Name) -> object:
        """A parameter, unless the function binds it to a value other than the moved parameter."""
        bound = variables.bindings(node.id, node, self.definitions)
        values = [getattr(self.definitions.tree.parent(item), "value", None) for item in bound]
        is_same = all(isinstance(value, ast.Call) and dotted(itself(value)) == node.id for value in values)
        return (function, node.id) if is_same else None

    def _is_under_condition(self, node: ast.AST) -> bool:
        for item in self.definitions.tree.ancestors(node):
            if isinstance(item, SCOPES):
                return False
            if isinstance(item, (ast.If, *LOOPS, *TRIES)):
                return True
        return False

    def same(self, first: ast.expr, second: ast.expr) -> Answer:
        """Whether two expressions share their parameters: a shallow copy shares those of the original."""
        if dotted(first) and written_alike(first, second):
            return Answer.YES
        one, other = self.origin(first), self.origin(second)
        if one is None or other is None:
            return Answer.UNKNOWN
        if one == other:
            return Answer.YES
        if not isinstance(one, ast.Call) or not isinstance(other, ast.Call):
            return Answer.UNKNOWN
        return Answer.YES if self._share_layers(one, other) else Answer.NO

    def _share_layers(self, first: ast.Call, second: ast.Call) -> bool:
        """Whether two chains contain the same layers: `nn.Sequential(encoder, head)` twice."""
        if not all(self.definitions.named(item.func) == "torch.nn.Sequential" for item in (first, second)):
            return False
        weighted = [item for item in first.args if self.made_layer(item) is not None]
        origins = [self.origin(item) for item in second.args]
        return bool(weighted) and all(self.origin(item) in origins for item in weighted)

    def one_for_two(self) -> Iterator[tuple[ast.Call, ast.expr, Site | None]]:
        """The calls that pass one object for two parameters between which the class copies weights.

        Each comes with the object, and the place of the copy if it is in this file.
        """
        for call in self.definitions.tree.of_type(ast.Call):
            names_given = [dotted(item) for item in arguments(call) if isinstance(item, (ast.Name, ast.Attribute))]
            is_twice = len(set(names_given)) < len(names_given)
            info = self.definitions.class_named(dotted(call.func)) if is_twice else None
            method = info.method("__init__") if info is not None else None
            if method is None:
                continue
            given = callees.arguments(call, method)
            home = self._home_of(method)
            for copy in home.copies_of(method):
                first, second = (given.get(name) for name in copy[1:])
                if first is not None and _is_one_place(first, second):
                    yield call, first, site_of(copy[0]) if home is self else None
                    break

    def kept_and_given(self) -> Iterator[tuple[ast.Call, ast.expr]]:
        """The calls that create an object with a network, which another method later copies from itself.

        Such as `average = Average(model)` with `average.update(model)`, if the class stores `model` instead of a copy.
        """
        for call in self.definitions.tree.of_type(ast.Call):
            owner = call.func.value if isinstance(call.func, ast.Attribute) else None
            is_update = owner is not None and UPDATES.search(called_name(call)) is not None
            made = self._value(owner) if is_update and isinstance(owner, (ast.Name, ast.Attribute)) else None
            info = self.definitions.class_named(dotted(made.func)) if isinstance(made, ast.Call) else None
            init, method = (info.method(name) if info is not None else None for name in ("__init__", called_name(call)))
            if isinstance(made, ast.Call) and init is not None and method is not None:
                kept, given = callees.arguments(made, init), callees.arguments(call, method)
                for one, other in self._home_of(method).copies_between(init, method):
                    first, second = kept.get(one), given.get(other)
                    if first is not None and _is_one_place(first, second):
                        yield made, first
                        break

    def _home_of(self, method: FunctionInfo) -> Provenance:
        """The answers about the file of a method."""
        return self if method.definitions is self.definitions else Provenance(method.definitions)

    def copies_between(self, first: FunctionInfo, second: FunctionInfo) -> Iterator[tuple[str, str]]:
        """The copies of weights between a parameter of one method, which it stores, and one of another method."""
        for copy in self.copies:
            origins = [item for item in map(self.origin, (copy.target, copy.source)) if isinstance(item, tuple)]
            found = {item[0]: item[1] for item in origins}
            if len(origins) == 2 and first in found and second in found:
                yield found[first], found[second]

    def copies_of(self, method: FunctionInfo) -> Iterator[tuple[ast.expr, str, str]]:
        """The copies of weights between objects that are two parameters of a method, with the names of these."""
        for copy in self.copies:
            one, other = self.origin(copy.target), self.origin(copy.source)
            if isinstance(one, tuple) and isinstance(other, tuple) and one[0] is other[0] is method:
                yield copy.node, one[1], other[1]

    def is_rebound_to_trained(self, target: ast.expr, source: ast.expr) -> bool:
        """Whether an update rebinds a name from one network to another that an optimizer trains under its own name."""
        tree, function = self.definitions.tree, self.definitions.function_around(target)
        is_attribute = isinstance(target, ast.Attribute)
        method = self.definitions.method_around(target)
        owner = method.owner if method is not None else None
        if is_attribute and (owner is None or method is None or method.name == "__init__"):
            return False
        here = function.node if function is not None else tree.module
        scope = owner.node if is_attribute and owner is not None else here
        loop = next((item for item in tree.ancestors(target) if isinstance(item, LOOPS)), None)
        if not is_attribute and loop is None:
            return False
        if any(written_alike(item, source) for item in _stores(here if loop is None else loop)):
            return False
        others = [item for item in _stores(scope) if item is not target and written_alike(item, target)]
        before = [getattr(tree.parent(item), "value", None) for item in others]
        was_another = any(value is None or not written_alike(source, value) for value in before)
        return was_another and any(self._is_trained(call, source) for call in walk(scope) if isinstance(call, ast.Call))

    def _is_trained(self, call: ast.Call, network: ast.expr) -> bool:
        """`optim.Adam(network.parameters())`."""
        if not naming.is_optimizer_class(called_name(call)):
            return False
        taken = (item.func for item in walk(call) if isinstance(item, ast.Call) and called_name(item) == "parameters")
        return any(isinstance(item, ast.Attribute) and written_alike(item.value, network) for item in taken)

    @cached_property
    def states(self) -> States:
        """The objects that load a state, and those created again."""
        return States(self.definitions)

    @cached_property
    def rebounds(self) -> Rebounds:
        """The optimizers whose parameters a later statement replaces."""
        return Rebounds(self.definitions)

    @cached_property
    def drawn(self) -> Drawn:
        """The loop variables that are parameters."""
        return Drawn(self.definitions)

    @cached_property
    def modules(self) -> Modules:
        """The expressions that are surely modules."""
        return Modules(self.definitions)

    @cached_property
    def files(self) -> Files:
        """The checkpoints that are saved and loaded."""
        return Files(self.definitions)

    @cached_property
    def copies(self) -> list[Copy]:
        """The copies of weights from one network into another."""
        return list(Copies(self.definitions).all())

    def made_layer(self, node: ast.expr) -> ast.Call | ast.Name | None:
        """The call that creates a layer with parameters; for a parameter named like a layer, the name itself."""
        made = node if isinstance(node, ast.Call) else self.created(node) if isinstance(node, ast.Name) else None
        if isinstance(made, ast.Call):
            return made if self.has_weights(made) else None
        function = self.definitions.function_around(node)
        if not isinstance(node, ast.Name) or function is None or node.id not in function.parameters:
            return None
        if not _names_layer(node.id.lower()):
            return None
        given = [*given_for(function, node.id, self.definitions), defaults_of(function.node).get(node.id)]
        known = [call for item in given if isinstance(item, ast.expr) for call in [self._made(item)]]
        return node if all(call is None or self.has_weights(call) for call in known) else None

    def _made(self, argument: ast.expr) -> ast.Call | None:
        """The call that creates an argument, if it is visible."""
        made = argument if isinstance(argument, ast.Call) else self.created(argument)
        return made if isinstance(made, ast.Call) else None

    def is_optimizer(self, node: ast.expr, depth: int = 3) -> bool:
        """Whether a name is a PyTorch optimizer: by its creation, its annotation, or the arguments of all calls."""
        made = self.created(node)
        if isinstance(made, ast.Call):
            return _is_optimizer_class(self.definitions.named(made.func))
        while (value := self._value(itself(node))) is not None and depth:
            node, depth = value, depth - 1
        function = self.definitions.function_around(node)
        if function is None or not isinstance(node, ast.Name) or node.id not in function.parameters:
            return False
        notes = [item.annotation for item in all_parameters(function.node) if item.arg == node.id]
        if any(note is not None and _is_optimizer_class(self.definitions.named(note)) for note in notes):
            return True
        given = given_for(function, node.id, self.definitions) if depth else []
        return bool(given) and all(self.is_optimizer(item, depth - 1) for item in given)

    def _returns_weights(self, call: ast.Call, depth: int) -> bool:
        """Whether a function of the program surely returns a module with parameters."""
        function = names.function(call.func, self.definitions) if isinstance(call.func, ast.Name) else None
        function = function or self.function_called(call)
        if function is None or isinstance(function.node, ast.Lambda):
            return False
        inner = self if function.definitions is self.definitions else Provenance(function.definitions)
        ends = [node.value for node in names.own_nodes(function.node) if isinstance(node, ast.Return)]
        made = [inner.created(value) if value is not None else None for value in ends]
        return bool(made) and all(isinstance(item, ast.Call) and inner.has_weights(item, depth - 1) for item in made)

    def _unpacked(self, argument: ast.expr) -> list[ast.expr]:
        """The argument itself, or the elements of an unpacked list that a function surely fills."""
        if not isinstance(argument, ast.Starred):
            return [argument]
        layers = argument.value
        if isinstance(layers, ast.ListComp):
            return [layers.elt]
        if isinstance(layers, ast.List):
            return layers.elts
        around = self.definitions.function_around(layers)
        calls = [node for node in walk(around.node) if isinstance(node, ast.Call)] if around is not None else []
        added = [call for call in calls if dotted(call.func) == f"{dotted(layers)}.append" and len(call.args) == 1]
        made = self.created(layers)
        first = made.elts if isinstance(made, ast.List) else []
        return [*first, *(call.args[0] for call in added if isinstance(layers, ast.Name))]

    def has_weights(self, call: ast.Call, depth: int = 2) -> bool:
        """Whether a call creates a module that surely has parameters."""
        info = self.definitions.class_named(dotted(call.func))
        if info is not None:
            is_module = any(item in _MODULES for item in info.ancestors() if isinstance(item, str))
            return is_module and not is_parameterless(info)
        name = self.definitions.named(call.func)
        if name.startswith("torchvision.models.") and name.rpartition(".")[2].islower():
            return True
        if not name.startswith("torch.nn."):
            return depth > 0 and self._returns_weights(call, depth)
        last = called_name(call)
        if last == "Sequential":
            items = [inner for item in call.args for inner in self._unpacked(item)]
            return any(isinstance(item, ast.Call) and self.has_weights(item) for item in items)
        norm = stateful_modules.NORMS.get(last) if not call.keywords else None
        return last in stateful_modules.WEIGHTED or (norm is not None and any(norm.flags.values()))


def _is_one_place(first: ast.expr, second: ast.expr | None) -> bool:
    """Whether two arguments are the same variable or attribute."""
    return second is not None and bool(dotted(first)) and written_alike(first, second)


def _is_optimizer_class(name: str) -> bool:
    package, _, last = name.rpartition(".")
    return package.startswith("torch.optim") and "lr_scheduler" not in package and naming.is_optimizer_class(last)


def itself(node: ast.expr) -> ast.expr:
    """`net` of `net.cuda().eval()`: the module that these methods return."""
    return without_calls(node, _SAME)


def _stores(scope: ast.AST) -> Iterator[ast.expr]:
    """The variables and attributes bound in a scope."""
    for node in walk(scope):
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Store):
            yield node


def _names_layer(name: str) -> bool:
    """Whether a parameter stands for a layer with weights by its name."""
    return name.endswith(_LAYER_NAMES) and not any(word in name for word in _PLAIN_LAYER_NAMES)
