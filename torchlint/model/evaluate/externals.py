"""Calls of what is imported: PyTorch by what is known of it, other packages by their names."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cached_property

from torchlint.model.evaluate.arguments import Arguments, flag
from torchlint.model.evaluate.part import Part
from torchlint.model.events import Anomaly, EmptyCache, Grad
from torchlint.model.values import (
    Container,
    Context,
    External,
    Function,
    Module,
    Plain,
    Tensor,
    Unknown,
    Value,
    resolved,
)
from torchlint.pytorch import api, naming
from torchlint.pytorch.api import GradMode
from torchlint.syntax.python_ast import site_of


class Externals(Part):
    """Evaluates calls by qualified name."""

    @cached_property
    def _handlers(self) -> dict[str, Callable[[str, Arguments, ast.Call], Value | None]]:
        return {
            **dict.fromkeys(api.SET_GRAD_MODE, self._set_grad_mode),
            **dict.fromkeys(api.DETECT_ANOMALY, self._detect_anomaly),
            **dict.fromkeys(api.SET_ANOMALY, self._set_anomaly),
            **dict.fromkeys(api.EMPTY_CACHE, self._empty_cache),
            "torch.autograd.grad": self._autograd_grad, "torch.autograd.backward": self._autograd_backward,
            "torch_xla.core.xla_model.optimizer_step": self._optimizer_step_function,
            "torch.nn.Parameter": self._new_parameter, "torch.nn.parameter.Parameter": self._new_parameter,
            "torch.autograd.Variable": self._variable, "torch.autograd.variable.Variable": self._variable,
            "torch.cuda.amp.GradScaler": self._scaler, "torch.amp.GradScaler": self._scaler,
            "torch.cuda.amp.grad_scaler.GradScaler": self._scaler,
            "accelerate.Accelerator": self._engine, "lightning.Fabric": self._engine,
            "lightning.fabric.Fabric": self._engine,
            "deepspeed.initialize": self._deepspeed, "apex.amp.initialize": self._amp_initialize,
            "apex.amp.scale_loss": self._amp_scale_loss, "copy.deepcopy": self._deepcopy, "copy.copy": self._deepcopy,
            "torch.optim.swa_utils.AveragedModel": self._averaged,
            "collections.deque": self._deque, "collections.defaultdict": self._defaultdict,
        }  # fmt: skip

    def call(self, name: str, arguments: Arguments, node: ast.Call) -> Value:
        """A call of something imported, by its qualified name."""
        handler = self._handlers.get(name)
        if handler is not None:
            result = handler(name, arguments, node)
            if result is not None:
                return result
        if name in api.GRAD_MODES:
            return self._grad_mode(name, arguments, node)
        if api.WRAPPERS.search(name) and arguments.positional:
            return arguments.positional[0]
        last = name.rpartition(".")[2]
        if api.package(name) == "torch" or name.startswith("torch"):
            known = self.torch_functions.call(name, last, arguments, node)
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
            self.state.mode = mode
        return Context(node, mode)

    def is_with_item(self, node: ast.AST) -> bool:
        return isinstance(self.definitions.tree.parent(node), ast.withitem)

    def _detect_anomaly(self, name: str, arguments: Arguments, node: ast.Call) -> Value:
        """A context manager, which does nothing until it is entered."""
        if not isinstance(self.definitions.tree.parent(node), ast.Expr):
            self.state.emit(Anomaly(site_of(node), True))
        return Plain(node)

    def _set_anomaly(self, name: str, arguments: Arguments, node: ast.Call) -> Value:
        first = arguments.get(0, "mode") or arguments.keywords.get("enabled")
        literal = resolved(first) if first is not None else None
        on = bool(literal.constant) if isinstance(literal, Plain) and literal.is_literal else None
        self.state.emit(Anomaly(site_of(node), on))
        return Plain(node)

    def _empty_cache(self, name: str, arguments: Arguments, node: ast.Call) -> Value:
        self.state.emit(EmptyCache(site_of(node)))
        return Plain(node)

    def _autograd_grad(self, name: str, arguments: Arguments, node: ast.Call) -> Value:
        outputs = arguments.get(0, "outputs") or Plain(node)
        self.state.emit(Grad(site_of(node), outputs))
        create = flag(arguments, "create_graph")
        if create is False:
            return self.state.stamp(Tensor(node, "detach", (), self.state.mode))
        return self.state.stamp(Tensor(node, "grad", (outputs,), self.state.mode if create else GradMode.UNKNOWN))

    def _autograd_backward(self, name: str, arguments: Arguments, node: ast.Call) -> Value:
        self.training.emit_backward(arguments.get(0, "tensors") or Plain(node), arguments, node)
        return Plain(node, None)

    def _optimizer_step_function(self, name: str, arguments: Arguments, node: ast.Call) -> Value | None:
        return self.training.optimizer_step(External(node, name), arguments, node)

    def _new_parameter(self, name: str, arguments: Arguments, node: ast.Call) -> Value:
        flag = arguments.keywords.get("requires_grad")
        if isinstance(flag, Plain) and flag.constant is False:
            return self.state.stamp(Tensor(node, "new"))
        return self.tensors.new_leaf(node, arguments.all())

    def _variable(self, name: str, arguments: Arguments, node: ast.Call) -> Value | None:
        """`Variable(x)` of old code is `x`; with `requires_grad=True` a new leaf."""
        flag = arguments.keywords.get("requires_grad")
        if isinstance(flag, Plain) and flag.constant is True:
            return self.tensors.new_leaf(node)
        return arguments.positional[0] if arguments.positional else None

    def _scaler(self, name: str, arguments: Arguments, node: ast.Call) -> Value:
        return self.state.stamp(Unknown(node, "scaler", (), "scaler"))

    def _engine(self, name: str, arguments: Arguments, node: ast.Call) -> Value:
        return self.state.stamp(Unknown(node, "engine", (), "engine"))

    def _deepspeed(self, name: str, arguments: Arguments, node: ast.Call) -> Value:
        engine = self._engine(name, arguments, node)
        engine.used_as("engine")
        result = self.state.stamp(Unknown(node, "call", arguments.all(), "deepspeed"))
        result.set_part("[0]", engine)
        return result

    def _amp_initialize(self, name: str, arguments: Arguments, node: ast.Call) -> Value | None:
        given = [item for item in (arguments.get(0, "models"), arguments.get(1, "optimizers")) if item is not None]
        if not given:
            return None
        return given[0] if len(given) == 1 else self.state.stamp(Container(node, "tuple", tuple(given)))

    def _amp_scale_loss(self, name: str, arguments: Arguments, node: ast.Call) -> Value | None:
        """`with amp.scale_loss(loss, opt) as scaled:` binds the loss, larger."""
        return self.tensors.make("scale", (arguments.positional[0],), node) if arguments.positional else None

    def _deepcopy(self, name: str, arguments: Arguments, node: ast.Call) -> Value | None:
        first = resolved(arguments.positional[0]) if arguments.positional else None
        if isinstance(first, Module):
            return self.state.stamp(Module(node, first.name, (first,), first.info, first.inplace))
        return None

    def _averaged(self, name: str, arguments: Arguments, node: ast.Call) -> Value:
        """A copy of a module whose parameters are averages."""
        return self._deepcopy(name, arguments, node) or self.state.stamp(Module(node, "AveragedModel", arguments.all()))

    def _foreign(self, name: str, last: str, arguments: Arguments, node: ast.Call) -> Value:
        root = api.package(name)
        if root == "builtins":
            return self.builtin_functions.call(last, arguments, node)
        if naming.is_optimizer_class(last):
            return self.torch_functions.new_optimizer(last, arguments, node)
        if root == "einops" and arguments.positional:
            return self.tensors.make(last, (arguments.positional[0],), node)
        if last == "AverageMeter":
            return self.state.stamp(Container(node, "meter"))
        if name in api.PROGRESS or last in ("tqdm", "trange", "track"):
            return arguments.positional[0] if arguments.positional else Plain(node)
        if root in api.PLAIN_PACKAGES:
            return Plain(node)
        callee = External(node, name)
        if root in api.HARMLESS_PACKAGES or last[:1].isupper():
            kind = "object" if last[:1].isupper() else "call"
            return self.state.stamp(Unknown(node, kind, arguments.all(), last, callee, self.state.mode))
        return self.calls.unresolved(callee, last, arguments.all(), node)

    def _deque(self, name: str, arguments: Arguments, node: ast.Call) -> Value:
        limit = arguments.get(1, "maxlen")
        return self.state.stamp(Container(node, "deque", bounded=limit is not None))

    def _defaultdict(self, name: str, arguments: Arguments, node: ast.Call) -> Value:
        made = self.state.stamp(Container(node, "dict"))
        factory = resolved(arguments.positional[0]) if arguments.positional else None
        if isinstance(factory, External) and factory.name in ("builtins.list", "collections.deque"):
            made.add(self.state.stamp(Container(node, "list")))
        elif isinstance(factory, External) and factory.name in ("builtins.int", "builtins.float"):
            made.add(Plain(node, 0))
        return made


def _mode(literal: object, if_true: GradMode, if_false: GradMode) -> GradMode:
    """The grad mode that a literal argument asks for."""
    if literal is True:
        return if_true
    return if_false if literal is False else GradMode.UNKNOWN
