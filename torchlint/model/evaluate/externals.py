"""Calls of what is imported: PyTorch by what is known of it, other packages by their names."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import ClassVar

from torchlint.model.definitions import FunctionInfo, defaults_of
from torchlint.model.evaluate.inlining import Arguments
from torchlint.model.evaluate.methods import Methods
from torchlint.model.evaluate.training import flag
from torchlint.model.events import Anomaly, Clear, Clip, EmptyCache, Fresh, Grad, GradRead, MemoryProbe
from torchlint.model.values import (
    Container,
    Context,
    External,
    Function,
    Module,
    Optimizer,
    Plain,
    Tensor,
    Unknown,
    Value,
    resolved,
)
from torchlint.pytorch import api, naming
from torchlint.pytorch.api import GradMode
from torchlint.pytorch.autograd_table import INPLACE, INPLACE_MODULES, OPERATORS, VIEWS
from torchlint.syntax.python_ast import site_of


class Externals(Methods):
    """Evaluates calls by qualified name."""

    def builtin(self, name: str, arguments: Arguments, node: ast.Call) -> Value:
        """A call of one of Python's own functions."""
        raise NotImplementedError

    def call_external(self, name: str, arguments: Arguments, node: ast.Call) -> Value:
        """A call of something imported, by its qualified name."""
        handler = self._externals.get(name)
        if handler is not None:
            result = handler(self, name, arguments, node)
            if result is not None:
                return result
        if name in api.GRAD_MODES:
            return self._grad_mode(name, arguments, node)
        if api.WRAPPERS.search(name) and arguments.positional:
            return arguments.positional[0]
        last = name.rpartition(".")[2]
        if api.package(name) == "torch" or name.startswith("torch"):
            known = self._torch(name, last, arguments, node)
            if known is not None:
                return known
        return self._foreign(name, last, arguments, node)

    def _grad_mode(self, name: str, arguments: Arguments, node: ast.Call) -> Value:
        mode = api.GRAD_MODES[name]
        first = arguments.get(0, "mode")
        if first is not None:
            target = resolved(first)
            if isinstance(target, Function):
                return Function(target.info, target.frame, target.receiver, mode)
            literal = target.constant if isinstance(target, Plain) and target.is_literal else None
            mode = _mode(literal, GradMode.OFF, GradMode.ON)
        return Context(node, mode)

    def _set_grad_mode(self, name: str, arguments: Arguments, node: ast.Call) -> Value:
        first = arguments.get(0, "mode")
        target = resolved(first) if first is not None else None
        literal = target.constant if isinstance(target, Plain) and target.is_literal else None
        mode = _mode(literal, GradMode.ON, GradMode.OFF)
        if not self.is_with_item(node):
            self.mode = mode
        return Context(node, mode)

    def is_with_item(self, node: ast.AST) -> bool:
        return isinstance(self.definitions.tree.parent(node), ast.withitem)

    def _detect_anomaly(self, name: str, arguments: Arguments, node: ast.Call) -> Value:
        """A context manager, which does nothing until it is entered."""
        if not isinstance(self.definitions.tree.parent(node), ast.Expr):
            self.emit(Anomaly(site_of(node), True))
        return Plain(node)

    def _set_anomaly(self, name: str, arguments: Arguments, node: ast.Call) -> Value:
        first = arguments.get(0, "mode") or arguments.keywords.get("enabled")
        literal = resolved(first) if first is not None else None
        on = bool(literal.constant) if isinstance(literal, Plain) and literal.is_literal else None
        self.emit(Anomaly(site_of(node), on))
        return Plain(node)

    def _empty_cache(self, name: str, arguments: Arguments, node: ast.Call) -> Value:
        self.emit(EmptyCache(site_of(node)))
        return Plain(node)

    def _autograd_grad(self, name: str, arguments: Arguments, node: ast.Call) -> Value:
        outputs = arguments.get(0, "outputs") or Plain(node)
        self.emit(Grad(site_of(node), outputs))
        create = flag(arguments, "create_graph")
        if create is False:
            return self.made(Tensor(node, "detach", (), self.mode))
        return self.made(Tensor(node, "grad", (outputs,), self.mode if create else GradMode.UNKNOWN))

    def _autograd_backward(self, name: str, arguments: Arguments, node: ast.Call) -> Value:
        self.emit_backward(arguments.get(0, "tensors") or Plain(node), arguments, node)
        return Plain(node, None)

    def _optimizer_step_function(self, name: str, arguments: Arguments, node: ast.Call) -> Value | None:
        return self._optimizer_step(External(node, name), arguments, node)

    def _new_parameter(self, name: str, arguments: Arguments, node: ast.Call) -> Value:
        flag = arguments.keywords.get("requires_grad")
        if isinstance(flag, Plain) and flag.constant is False:
            return self.made(Tensor(node, "new"))
        return self.new_leaf(node, arguments.all())

    def _variable(self, name: str, arguments: Arguments, node: ast.Call) -> Value | None:
        """`Variable(x)` of old code is `x`; with `requires_grad=True` a new leaf."""
        flag = arguments.keywords.get("requires_grad")
        if isinstance(flag, Plain) and flag.constant is True:
            return self.new_leaf(node)
        return arguments.positional[0] if arguments.positional else None

    def _scaler(self, name: str, arguments: Arguments, node: ast.Call) -> Value:
        return self.made(Unknown(node, "scaler", (), "scaler"))

    def _engine(self, name: str, arguments: Arguments, node: ast.Call) -> Value:
        return self.made(Unknown(node, "engine", (), "engine"))

    def _deepspeed(self, name: str, arguments: Arguments, node: ast.Call) -> Value:
        engine = self._engine(name, arguments, node)
        engine.used_as("engine")
        result = self.made(Unknown(node, "call", arguments.all(), "deepspeed"))
        result.set_part("[0]", engine)
        return result

    def _amp_initialize(self, name: str, arguments: Arguments, node: ast.Call) -> Value | None:
        given = [item for item in (arguments.get(0, "models"), arguments.get(1, "optimizers")) if item is not None]
        if not given:
            return None
        return given[0] if len(given) == 1 else self.made(Container(node, "tuple", tuple(given)))

    def _amp_scale_loss(self, name: str, arguments: Arguments, node: ast.Call) -> Value | None:
        """`with amp.scale_loss(loss, opt) as scaled:` binds the loss, larger."""
        return self.made_tensor("scale", (arguments.positional[0],), node) if arguments.positional else None

    def _deepcopy(self, name: str, arguments: Arguments, node: ast.Call) -> Value | None:
        first = resolved(arguments.positional[0]) if arguments.positional else None
        if isinstance(first, Module):
            return self.made(Module(node, first.name, (first,), first.info, first.inplace))
        return None

    def _averaged(self, name: str, arguments: Arguments, node: ast.Call) -> Value:
        """A copy of a module whose parameters are averages."""
        return self._deepcopy(name, arguments, node) or self.made(Module(node, "AveragedModel", arguments.all()))

    def _torch(self, name: str, last: str, arguments: Arguments, node: ast.Call) -> Value | None:
        if last in api.MEMORY_PROBES:
            self.emit(MemoryProbe(site_of(node), last.startswith("reset")))
            return Plain(node)
        if last.startswith("_foreach_") and self._gradients_in(arguments):
            self.emit(
                Clear(site_of(node), None, explicit=False) if last == "_foreach_zero_" else GradRead(site_of(node))
            )
            return Plain(node)
        if name.startswith(api.SCHEDULERS):
            return self.made(Unknown(node, "scheduler", arguments.all(), "scheduler"))
        if last in api.PLAIN_FUNCTIONS or last.startswith(("is_", "are_", "get_", "set_")):
            return Plain(node)
        if name.startswith("torch.optim.") and last[:1].isupper():
            return self._new_optimizer(last, arguments, node)
        if name.startswith("torch.nn.utils.clip_grad") or last in (
            "clip_grad_norm_",
            "clip_grad_value_",
            "clip_grad_norm",
        ):
            bound = arguments.get(1, "clip_value" if "value" in last else "max_norm")
            self.emit(Clip(site_of(node), arguments.get(0, "parameters"), bound))
            return Plain(node)
        if name.startswith(
            (
                "torch.nn.init.",
                "torch.cuda.",
                "torch.backends.",
                "torch.manual",
                "torch.distributed.",
                "torch.random.",
            )
        ):
            return Plain(node)
        if name.startswith("torch.nn.") and last[:1].isupper() and name.count(".") <= 4:
            return self._new_module(last, arguments, node)
        if last in api.CREATORS and name.count(".") <= 2:
            out = arguments.keywords.get("out")
            if out is not None:
                return self.mutate(node, None, out, last, ())
            return self.created(last, arguments, node)
        operator = api.operator_name(name)
        if operator is not None:
            return self._functional(operator, arguments, node)
        return None

    def _gradients_in(self, arguments: Arguments) -> bool:
        """Whether a call is handed a list of gradients."""
        first = resolved(arguments.positional[0]) if arguments.positional else None
        return isinstance(first, Container) and any(self.is_gradient(resolved(item)) for item in first.elements())

    def _new_optimizer(self, name: str, arguments: Arguments, node: ast.Call) -> Value:
        made = self.made(Optimizer(node, name, arguments.all()[:1]))
        self.emit(Fresh(site_of(node), made))
        return made

    def _new_module(self, name: str, arguments: Arguments, node: ast.Call) -> Value:
        if api.WRAPPERS.search(name) and arguments.positional:
            return arguments.positional[0]
        flag = arguments.keywords.get("inplace")
        position = {"LeakyReLU": 1, "Dropout": 1, "ELU": 1}.get(name, 0)
        if flag is None and name in INPLACE_MODULES and len(arguments.positional) > position:
            flag = arguments.positional[position]
        inplace = isinstance(flag, Plain) and flag.constant is True and not self._drops_nothing(name, arguments)
        made = self.made(Module(node, f"torch.nn.{name}", arguments.all(), inplace=inplace))
        self.emit(Fresh(site_of(node), made))
        return made

    def _drops_nothing(self, name: str, arguments: Arguments) -> bool:
        """Whether it is dropout of nothing, as far as this module says: its probability is 0, or by default is."""
        probability = arguments.get(0, "p") if "Dropout" in name else None
        if isinstance(probability, Unknown) and probability.origin == "parameter" and self.frame.info is not None:
            default = defaults_of(self.frame.info.node).get(probability.label)
            return isinstance(default, ast.Constant) and default.value == 0
        return isinstance(probability, Plain) and probability.constant == 0

    def _functional(self, operator: str, arguments: Arguments, node: ast.Call) -> Value:
        parents = _operands(operator, arguments, node)
        out = arguments.keywords.get("out")
        if out is not None:
            return self.mutate(node, None, out, operator, parents)
        flag = arguments.keywords.get("inplace")
        first = arguments.get(0, "input")
        if first is not None and (operator in INPLACE or (isinstance(flag, Plain) and flag.constant is True)):
            self.mutated.add(first)
            result = self.mutate(node, None, first, operator, parents[1:])
            if operator not in INPLACE and isinstance(result, Tensor):
                self.in_place_results[result] = first_argument(node)
            return result
        if all(isinstance(resolved(item), Plain) for item in parents):
            return self.made(Tensor(node, "new"))
        base = first if operator in VIEWS else None
        return self.computed(operator, parents, node, base)

    def _foreign(self, name: str, last: str, arguments: Arguments, node: ast.Call) -> Value:
        root = api.package(name)
        if root == "builtins":
            return self.builtin(last, arguments, node)
        if naming.is_optimizer_class(last):
            return self._new_optimizer(last, arguments, node)
        if root == "einops" and arguments.positional:
            return self.made_tensor(last, (arguments.positional[0],), node)
        if last == "AverageMeter":
            return self.made(Container(node, "meter"))
        if name in api.PROGRESS or last in ("tqdm", "trange", "track"):
            return arguments.positional[0] if arguments.positional else Plain(node)
        if root in api.PLAIN_PACKAGES:
            return Plain(node)
        callee = External(node, name)
        if root in api.HARMLESS_PACKAGES or last[:1].isupper():
            kind = "object" if last[:1].isupper() else "call"
            return self.made(Unknown(node, kind, arguments.all(), last, callee, self.mode))
        return self.unresolved(callee, last, arguments.all(), node)

    def _deque(self, name: str, arguments: Arguments, node: ast.Call) -> Value:
        limit = arguments.get(1, "maxlen")
        return self.made(Container(node, "deque", bounded=limit is not None))

    def _defaultdict(self, name: str, arguments: Arguments, node: ast.Call) -> Value:
        made = self.made(Container(node, "dict"))
        factory = resolved(arguments.positional[0]) if arguments.positional else None
        if isinstance(factory, External) and factory.name in ("builtins.list", "collections.deque"):
            made.add(self.made(Container(node, "list")))
        elif isinstance(factory, External) and factory.name in ("builtins.int", "builtins.float"):
            made.add(Plain(node, 0))
        return made

    in_place_results: dict[Tensor, ast.expr]
    """What is written for the argument that an in-place activation overwrites, by its result."""
    in_place_modules: dict[Tensor, Module]
    forward_calls: dict[FunctionInfo, list[tuple[frozenset[str], GradMode]]]
    """The parameters that each call of a `forward` gives, and the grad mode of the call."""
    openings: dict[Tensor, Module]
    """The module that opens a `Sequential` and overwrites its argument, by its result."""
    """The module that overwrites its argument, by its result."""

    _externals: ClassVar[dict[str, Callable[..., Value | None]]] = {
        **dict.fromkeys(api.SET_GRAD_MODE, _set_grad_mode),
        **dict.fromkeys(api.DETECT_ANOMALY, _detect_anomaly),
        **dict.fromkeys(api.SET_ANOMALY, _set_anomaly),
        **dict.fromkeys(api.EMPTY_CACHE, _empty_cache),
        "torch.autograd.grad": _autograd_grad, "torch.autograd.backward": _autograd_backward,
        "torch_xla.core.xla_model.optimizer_step": _optimizer_step_function,
        "torch.nn.Parameter": _new_parameter, "torch.nn.parameter.Parameter": _new_parameter,
        "torch.autograd.Variable": _variable, "torch.autograd.variable.Variable": _variable,
        "torch.cuda.amp.GradScaler": _scaler, "torch.amp.GradScaler": _scaler,
        "torch.cuda.amp.grad_scaler.GradScaler": _scaler,
        "accelerate.Accelerator": _engine, "lightning.Fabric": _engine, "lightning.fabric.Fabric": _engine,
        "deepspeed.initialize": _deepspeed, "apex.amp.initialize": _amp_initialize,
        "apex.amp.scale_loss": _amp_scale_loss, "copy.deepcopy": _deepcopy, "copy.copy": _deepcopy,
        "torch.optim.swa_utils.AveragedModel": _averaged,
        "collections.deque": _deque, "collections.defaultdict": _defaultdict,
    }  # fmt: skip


def _operands(operator: str, arguments: Arguments, node: ast.Call) -> tuple[Value, ...]:
    """What a function of PyTorch is called with, in the order of the operator's parameters."""
    known = OPERATORS.get(operator)
    if known is None or arguments.starred:
        return arguments.all()
    named = {"self" if key == "input" else key: value for key, value in arguments.keywords.items()}
    found = list(arguments.positional)
    for name in known.parameters[len(found) :] if named.keys() & set(known.parameters) else ():
        found.append(named.pop(name, Plain(node)))
    return (*found, *named.values())


def first_argument(call: ast.Call) -> ast.expr:
    """What is written first between the brackets of a call that has an argument."""
    return call.args[0] if call.args else call.keywords[0].value


def _mode(literal: object, if_true: GradMode, if_false: GradMode) -> GradMode:
    """The grad mode that a literal argument asks for."""
    if literal is True:
        return if_true
    return if_false if literal is False else GradMode.UNKNOWN
