"""Calls of imported names: PyTorch by its table, other packages by their names."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial

from torchlint.model.arguments import Arguments
from torchlint.model.events import Saved
from torchlint.model.interpret.machine import Machine, Part
from torchlint.model.interpret.transfer.builtin_functions import BuiltinFunctions
from torchlint.model.interpret.transfer.elements import Elements
from torchlint.model.interpret.transfer.known_calls import KnownCall, KnownCalls
from torchlint.model.interpret.transfer.tensors import Tensors
from torchlint.model.interpret.transfer.torch_functions import TorchFunctions
from torchlint.model.interpret.transfer.unknown_calls import UnknownCalls
from torchlint.model.utilities import RecordClass
from torchlint.model.values import (
    CallResult,
    Class,
    Container,
    Deque,
    Dict,
    External,
    Function,
    Generator,
    List,
    Meter,
    Plain,
    Tensor,
    UnknownObject,
    Value,
    resolved,
)
from torchlint.pytorch import api, datasets, naming, table
from torchlint.syntax.python_ast import site_of

MANY = 10_000
"""A bound so large that the graphs stay until the run ends, or longer."""


class Externals(Part):
    """Evaluates calls by qualified name."""

    def __init__(
        self,
        machine: Machine,
        tensors: Tensors,
        elements: Elements,
        builtin_functions: BuiltinFunctions,
        known_calls: KnownCalls,
        torch_functions: TorchFunctions,
        unknown_calls: UnknownCalls,
    ) -> None:
        super().__init__(machine)
        self.tensors = tensors
        self.elements = elements
        self.builtin_functions = builtin_functions
        self.known_calls = known_calls
        self.torch_functions = torch_functions
        self.unknown_calls = unknown_calls
        self._containers: dict[str, Callable[[Arguments, ast.Call], Value]] = {
            "collections.deque": self._deque,
            "collections.defaultdict": self._defaultdict,
            "collections.namedtuple": self._record_class,
            "collections.OrderedDict": partial(self.builtin_functions.call, "dict"),
            "itertools.chain": self._chain,
        }

    def call(self, name: str, arguments: Arguments, node: ast.Call) -> Value:
        """A call of an imported name, by its qualified name."""
        last = name.rpartition(".")[2]
        entry = table.function(name)
        if entry is not None:
            result = self.known_calls.call(KnownCall(entry, last, arguments, node))
            if result is not None:
                return result
        if name in self._containers:
            return self._containers[name](arguments, node)
        if name == "torch.save" and arguments.positional:
            self.state.emit(Saved(site_of(node), arguments.positional[0]))
        if api.WRAPPERS.search(name) and arguments.positional:
            if last == "FullyShardedDataParallel" and _shards(arguments):
                self.observations.sharded[resolved(arguments.positional[0])] = self.state.position.path
            return arguments.positional[0]
        if api.package(name) == "torch" or name.startswith("torch"):
            known = self.torch_functions.call(name, last, arguments, node)
            if known is not None:
                return known
        return self._foreign(name, last, arguments, node)

    # -- other packages -----------------------------------------------------------------------------

    def _foreign(self, name: str, last: str, arguments: Arguments, node: ast.Call) -> Value:
        root = api.package(name)
        if root == "builtins":
            return self.builtin_functions.call(last, arguments, node)
        if naming.is_optimizer_class(last):
            return self.known_calls.new_optimizer(last, arguments, node)
        if root == "einops" and arguments.positional and last not in ("asnumpy", "parse_shape"):
            return self.tensors.make(last, (arguments.positional[0],), node)
        if last == "AverageMeter":
            return self.state.stamp(Meter(node))
        if name in api.PROGRESS or last in ("tqdm", "trange", "track"):
            return arguments.positional[0] if arguments.positional else Plain(node)
        given = resolved(arguments.positional[0]) if arguments.positional else None
        calls_method = name in api.CALLING_THE_METHOD and not isinstance(given, Plain)
        if calls_method and isinstance(given, Tensor):
            return self.tensors.make(last, arguments.all(), node)
        if api.gives_no_tensor(name) and not calls_method:
            return self.tensors.number(name, arguments.all(), node)
        callee = External(node, name)
        if root in api.HARMLESS_PACKAGES or last[:1].isupper() or calls_method:
            kind = UnknownObject if last[:1].isupper() else CallResult
            made = self.state.stamp(kind(node, arguments.all(), last, callee, self.state.mode))
            if name in table.CHECKPOINTS:
                self.observations.checkpoints.append(made)
            result: Value = made
        else:
            result = self.unknown_calls.call(callee, last, arguments.all(), node)
        if name in datasets.OF_DATA:
            self.observations.data[result] = name
        return result

    def _deque(self, arguments: Arguments, node: ast.Call) -> Value:
        limit = arguments.get(1, "maxlen")
        bound = resolved(limit) if limit is not None else None
        number = bound.constant if isinstance(bound, Plain) and isinstance(bound.constant, int) else None
        is_bounded = limit is not None and (number is None or number < MANY)
        return self.state.stamp(Deque(node, number, is_bounded))

    def _chain(self, arguments: Arguments, node: ast.Call) -> Value:
        """The elements of several iterables, such as the parameters of several modules."""
        if arguments.starred:
            return self.state.stamp(CallResult(node, arguments.all(), "chain", None, self.state.mode))
        elements = tuple(self.elements.iterate(item, node) for item in arguments.positional)
        return self.state.stamp(Generator(node, elements))

    def _record_class(self, arguments: Arguments, node: ast.Call) -> Value:
        """`namedtuple("Losses", "policy value")`, or with a list of names."""
        given = arguments.get(1, "field_names")
        items = given.elements() if isinstance(given, Container) else [given]
        names = [item.constant for item in items if isinstance(item, Plain) and isinstance(item.constant, str)]
        fields = tuple(name for text in names for name in text.replace(",", " ").split())
        return RecordClass(node, fields if len(names) == len(items) else ())

    def _defaultdict(self, arguments: Arguments, node: ast.Call) -> Value:
        made = self.state.stamp(Dict(node))
        factory = resolved(arguments.positional[0]) if arguments.positional else None
        if isinstance(factory, External) and factory.name in ("builtins.list", "collections.deque"):
            made.add(self.state.stamp(List(node)))
        elif isinstance(factory, External) and factory.name in ("builtins.int", "builtins.float"):
            made.add(Plain(node, 0))
        elif isinstance(factory, (Class, Function)):
            made.add(self.machine.call(factory, Arguments([], {}, []), node))
        return made


def _shards(arguments: Arguments) -> bool:
    """Whether FSDP surely shards the parameters: by default, or by a named strategy."""
    strategy = arguments.get(2, "sharding_strategy")
    if strategy is None:
        return not arguments.starred
    named = resolved(strategy)
    return isinstance(named, External) and not named.name.endswith("NO_SHARD")
