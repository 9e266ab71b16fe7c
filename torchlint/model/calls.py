"""Calls of functions, classes and modules: PyTorch's own by what is known of them, local ones in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import libcst as cst

from torchlint.model import hints, knowledge
from torchlint.model.events import Anomaly, Branch, Clip, Compute, EmptyCache, Fresh, Grad, MemoryProbe
from torchlint.model.methods import Methods, owner_label
from torchlint.model.operators import INPLACE, INPLACE_MODULES, VIEWS
from torchlint.model.summaries import Arguments
from torchlint.model.values import (
    Class,
    Container,
    Context,
    External,
    Function,
    GradMode,
    Instance,
    Module,
    Optimizer,
    Parameters,
    Phi,
    Plain,
    Tensor,
    Unknown,
    Value,
    inputs_of,
    resolved,
)


class Calls(Methods):
    """Evaluates call expressions."""

    def call(self, node: cst.Call) -> Value:
        func = node.func
        if isinstance(func, cst.Attribute):
            receiver = self.value(func.value)
            arguments = self._arguments(node)
            if isinstance(receiver, External):
                return self.call_external(f"{receiver.name}.{func.attr.value}", arguments, node)
            if isinstance(receiver, Class):
                return self._class_method(receiver, func.attr.value, arguments, node)
            return self.call_method(receiver, func.attr.value, arguments, node)
        callee = self.value(func)
        return self.call_value(callee, self._arguments(node), node)

    def _arguments(self, node: cst.Call) -> Arguments:
        positional: list[Value] = []
        keywords: dict[str, Value] = {}
        starred: list[Value] = []
        for item in node.args:
            value = self.value(item.value)
            if item.keyword is not None:
                keywords[item.keyword.value] = value
            elif item.star == "*":
                inner = resolved(value)
                if isinstance(inner, Container) and inner.kind in ("list", "tuple"):
                    positional.extend(inner.parents)
                else:
                    starred.append(value)
            elif item.star:
                inner = resolved(value)
                if isinstance(inner, Container):
                    keywords.update({str(key): part for key, part in inner.known_parts.items() if key != "[]"})
                starred.append(value)
            else:
                positional.append(value)
        return Arguments(positional, keywords, starred)

    def call_value(self, callee: Value, arguments: Arguments, node: cst.Call) -> Value:
        callee = resolved(callee)
        if isinstance(callee, External):
            return self.call_external(callee.name, arguments, node)
        if isinstance(callee, Function):
            return self._call_function(callee, arguments, node)
        if isinstance(callee, Class):
            return self._instantiate(callee, arguments, node)
        if isinstance(callee, Module):
            return self._forward(callee, arguments, node)
        if isinstance(callee, Instance):
            return self._call_instance(callee, arguments, node)
        if isinstance(callee, Context):
            return self._decorate(callee, arguments, node)
        if isinstance(callee, Phi):
            return self._call_any(callee, arguments, node)
        return self._call_unknown(callee, arguments, node)

    def _call_function(self, callee: Function, arguments: Arguments, node: cst.Call) -> Value:
        if self.can_inline(callee.info):
            return self.inline(callee, arguments, node)
        handed = arguments.all() if callee.receiver is None else (callee.receiver, *arguments.all())
        return self.unresolved(callee, callee.info.name, handed, node)

    def _class_method(self, receiver: Class, name: str, arguments: Arguments, node: cst.Call) -> Value:
        """`Base.method(self, ...)`, a static or a class method."""
        method = self.definitions.method(receiver.info, name)
        if method is None:
            return self.unresolved(receiver, name, arguments.all(), node)
        bound = receiver if method.has_decorator("classmethod") else None
        return self._call_function(
            Function(method, self.module_frame, bound, self.decorated_mode(method)), arguments, node
        )

    def _instantiate(self, callee: Class, arguments: Arguments, node: cst.Call) -> Value:
        made = self.make(callee.info, arguments, node)
        if isinstance(made, (Optimizer, Module)):
            self.emit(Fresh(node, made))
        return made

    def _call_instance(self, callee: Instance, arguments: Arguments, node: cst.Call) -> Value:
        method = self.definitions.method(callee.info, "__call__")
        if method is None:
            return self.unresolved(callee, callee.info.name, (callee, *arguments.all()), node)
        return self._call_function(
            Function(method, self.module_frame, callee, self.decorated_mode(method)), arguments, node
        )

    def _decorate(self, callee: Context, arguments: Arguments, node: cst.Call) -> Value:
        """`torch.no_grad()(function)`."""
        first = resolved(arguments.positional[0]) if arguments.positional else None
        if isinstance(first, Function):
            return Function(first.info, first.frame, first.receiver, callee.mode)
        return first if first is not None else Plain(node)

    def _call_any(self, callee: Phi, arguments: Arguments, node: cst.Call) -> Value:
        """One of several callees: as a module where all are, else unknown."""
        inputs = [item for item in inputs_of(callee) if not (isinstance(item, Plain) and item.is_none)]
        if inputs and all(isinstance(item, Module) for item in inputs):
            return self._forward_any(inputs, arguments, node)
        return self._call_unknown(callee, arguments, node)

    def _forward_any(self, modules: list[Value], arguments: Arguments, node: cst.Call) -> Value:
        """One module or another runs: alternatives, like the arms of an `if`."""
        branch, path, outer = Branch(node, []), self.path, self.items
        results: list[Value] = []
        for number, module in enumerate(modules):
            self.items, self.path = [], (*path, (branch, number))
            results.append(self.call_value(module, arguments, node))
            branch.arms.append(self.items)
        self.items, self.path = outer, path
        self.items.append(branch)
        return self.phi(node, results)

    def _call_unknown(self, callee: Value, arguments: Arguments, node: cst.Call) -> Value:
        if isinstance(callee, (Plain, Container, Parameters)):
            return self.made(Unknown(node, "call", arguments.all(), "", callee, self.mode))
        if isinstance(callee, Unknown) and self._of_module(callee):
            return self.module_result(callee, arguments, node)
        return self.unresolved(callee, owner_label(callee), arguments.all(), node)

    def _of_module(self, callee: Value) -> bool:
        """An attribute of a module that is no method, or an element of one: a submodule."""
        while isinstance(callee, Unknown) and callee.origin in ("attribute", "element", "iteration") and callee.parents:
            callee = resolved(callee.parents[0])
        return isinstance(callee, Module)

    # -- modules ------------------------------------------------------------------------------------

    def _forward(self, callee: Module, arguments: Arguments, node: cst.Call) -> Value:
        if callee.inplace and arguments.positional:
            return self._activate_in_place(callee, arguments.positional[0], node)
        return self.module_result(callee, arguments, node)

    def module_result(self, callee: Value, arguments: Arguments, node: cst.Call) -> Value:
        info = callee.info if isinstance(callee, Module) else None
        mode = self.mode
        if info is not None:
            forward = self.definitions.method(info, "forward")
            mode = (self.decorated_mode(forward) if forward is not None else None) or mode
        result = self.made(Tensor(node, "module", (callee, *arguments.all()), mode))
        self.emit(Compute(node, result))
        return result

    def _activate_in_place(self, callee: Module, argument: Value, node: cst.Call) -> Value:
        target = node.args[0].value
        self.mutated.add(argument)
        name = callee.name.rpartition(".")[2]
        result = self.mutate(node, None, argument, name, ())
        assert isinstance(result, Tensor)
        self.in_place_results[result] = target
        return result

    # -- functions of PyTorch and of other packages ---------------------------------------------------

    def call_external(self, name: str, arguments: Arguments, node: cst.Call) -> Value:
        """A call of something imported, by its qualified name."""
        handler = self._externals.get(name)
        if handler is not None:
            result = handler(self, name, arguments, node)
            if result is not None:
                return result
        if name in knowledge.GRAD_MODES:
            return self._grad_mode(name, arguments, node)
        last = name.rpartition(".")[2]
        if knowledge.package(name) == "torch" or name.startswith("torch"):
            known = self._torch(name, last, arguments, node)
            if known is not None:
                return known
        if knowledge.WRAPPERS.search(name) and arguments.positional:
            return arguments.positional[0]
        return self._foreign(name, last, arguments, node)

    def _grad_mode(self, name: str, arguments: Arguments, node: cst.Call) -> Value:
        mode = knowledge.GRAD_MODES[name]
        first = arguments.get(0, "mode")
        if first is not None:
            target = resolved(first)
            if isinstance(target, Function):
                return Function(target.info, target.frame, target.receiver, mode)
            literal = target.constant if isinstance(target, Plain) and target.is_literal else None
            mode = _mode(literal, GradMode.OFF, GradMode.ON)
        return Context(node, mode)

    def _set_grad_mode(self, name: str, arguments: Arguments, node: cst.Call) -> Value:
        first = arguments.get(0, "mode")
        target = resolved(first) if first is not None else None
        literal = target.constant if isinstance(target, Plain) and target.is_literal else None
        mode = _mode(literal, GradMode.ON, GradMode.OFF)
        if not self.is_with_item(node):
            self.mode = mode
        return Context(node, mode)

    def is_with_item(self, node: cst.CSTNode) -> bool:
        return isinstance(self.definitions.tree.parents.get(node), cst.WithItem)

    def _detect_anomaly(self, name: str, arguments: Arguments, node: cst.Call) -> Value:
        self.emit(Anomaly(node, True))
        return Plain(node)

    def _set_anomaly(self, name: str, arguments: Arguments, node: cst.Call) -> Value:
        first = arguments.get(0, "mode") or arguments.keywords.get("enabled")
        literal = resolved(first) if first is not None else None
        on = bool(literal.constant) if isinstance(literal, Plain) and literal.is_literal else None
        self.emit(Anomaly(node, on))
        return Plain(node)

    def _empty_cache(self, name: str, arguments: Arguments, node: cst.Call) -> Value:
        self.emit(EmptyCache(node))
        return Plain(node)

    def _autograd_grad(self, name: str, arguments: Arguments, node: cst.Call) -> Value:
        outputs = arguments.get(0, "outputs") or Plain(node)
        self.emit(Grad(node, outputs))
        create = arguments.keywords.get("create_graph")
        attached = create is not None and not (isinstance(create, Plain) and create.constant is False)
        return self.made(Tensor(node, "grad" if attached else "detach", (outputs,) if attached else (), self.mode))

    def _autograd_backward(self, name: str, arguments: Arguments, node: cst.Call) -> Value:
        self.emit_backward(arguments.get(0, "tensors") or Plain(node), arguments, node)
        return Plain(node, None)

    def _optimizer_step_function(self, name: str, arguments: Arguments, node: cst.Call) -> Value | None:
        return self._optimizer_step(External(node, name), arguments, node)

    def _new_parameter(self, name: str, arguments: Arguments, node: cst.Call) -> Value:
        flag = arguments.keywords.get("requires_grad")
        if isinstance(flag, Plain) and flag.constant is False:
            return self.made(Tensor(node, "new"))
        return self.new_leaf(node, arguments.all())

    def _variable(self, name: str, arguments: Arguments, node: cst.Call) -> Value | None:
        """`Variable(x)` of old code is `x`; with `requires_grad=True` a new leaf."""
        flag = arguments.keywords.get("requires_grad")
        if isinstance(flag, Plain) and flag.constant is True:
            return self.new_leaf(node)
        return arguments.positional[0] if arguments.positional else None

    def _scaler(self, name: str, arguments: Arguments, node: cst.Call) -> Value:
        return self.made(Unknown(node, "scaler", (), "scaler"))

    def _engine(self, name: str, arguments: Arguments, node: cst.Call) -> Value:
        return self.made(Unknown(node, "engine", (), "engine"))

    def _deepspeed(self, name: str, arguments: Arguments, node: cst.Call) -> Value:
        engine = self._engine(name, arguments, node)
        engine.used_as("engine")
        result = self.made(Unknown(node, "call", arguments.all(), "deepspeed"))
        result.set_part("[0]", engine)
        return result

    def _amp_initialize(self, name: str, arguments: Arguments, node: cst.Call) -> Value | None:
        given = [item for item in (arguments.get(0, "models"), arguments.get(1, "optimizers")) if item is not None]
        if not given:
            return None
        return given[0] if len(given) == 1 else self.made(Container(node, "tuple", tuple(given)))

    def _amp_scale_loss(self, name: str, arguments: Arguments, node: cst.Call) -> Value | None:
        """`with amp.scale_loss(loss, opt) as scaled:` binds the loss, larger."""
        return self.made_tensor("scale", (arguments.positional[0],), node) if arguments.positional else None

    def _deepcopy(self, name: str, arguments: Arguments, node: cst.Call) -> Value | None:
        first = resolved(arguments.positional[0]) if arguments.positional else None
        if isinstance(first, Module):
            return self.made(Module(node, first.name, (first,), first.info, first.inplace))
        return None

    # -- torch ----------------------------------------------------------------------------------------

    def _torch(self, name: str, last: str, arguments: Arguments, node: cst.Call) -> Value | None:
        if last in knowledge.MEMORY_PROBES:
            self.emit(MemoryProbe(node))
            return Plain(node)
        if name.startswith(("torch.optim.lr_scheduler.", "torch.optim.swa_utils.SWALR")):
            return self.made(Unknown(node, "scheduler", arguments.all(), "scheduler"))
        if name.startswith("torch.optim.") and last[:1].isupper():
            return self._new_optimizer(last, arguments, node)
        if name.startswith("torch.nn.utils.clip_grad") or last in (
            "clip_grad_norm_",
            "clip_grad_value_",
            "clip_grad_norm",
        ):
            self.emit(Clip(node))
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
        if last in knowledge.CREATORS and name.count(".") <= 2:
            return self.created(last, arguments, node)
        operator = knowledge.operator_name(name)
        if operator is not None:
            return self._functional(operator, arguments, node)
        return None

    def _new_optimizer(self, name: str, arguments: Arguments, node: cst.Call) -> Value:
        made = self.made(Optimizer(node, name, arguments.all()[:1]))
        self.emit(Fresh(node, made))
        return made

    def _new_module(self, name: str, arguments: Arguments, node: cst.Call) -> Value:
        if knowledge.WRAPPERS.search(name) and arguments.positional:
            return arguments.positional[0]
        flag = arguments.keywords.get("inplace")
        position = {"LeakyReLU": 1, "Dropout": 1, "ELU": 1}.get(name, 0)
        if flag is None and name in INPLACE_MODULES and len(arguments.positional) > position:
            flag = arguments.positional[position]
        inplace = isinstance(flag, Plain) and flag.constant is True
        made = self.made(Module(node, f"torch.nn.{name}", arguments.all(), inplace=inplace))
        self.emit(Fresh(node, made))
        return made

    def _functional(self, operator: str, arguments: Arguments, node: cst.Call) -> Value:
        parents = arguments.all()
        out = arguments.keywords.get("out")
        if out is not None:
            return self.mutate(node, None, out, operator, parents)
        flag = arguments.keywords.get("inplace")
        first = arguments.get(0, "input")
        if first is not None and (operator in INPLACE or (isinstance(flag, Plain) and flag.constant is True)):
            self.mutated.add(first)
            result = self.mutate(node, None, first, operator, parents[1:])
            if operator not in INPLACE and isinstance(result, Tensor):
                self.in_place_results[result] = node.args[0].value
            return result
        if all(isinstance(resolved(item), Plain) for item in parents):
            return self.made(Tensor(node, "new"))
        base = first if operator in VIEWS else None
        return self.computed(operator, parents, node, base)

    # -- everything else --------------------------------------------------------------------------------

    def _foreign(self, name: str, last: str, arguments: Arguments, node: cst.Call) -> Value:
        root = knowledge.package(name)
        if root == "builtins":
            return self._builtin(last, arguments, node)
        if hints.is_optimizer_class(last):
            return self._new_optimizer(last, arguments, node)
        if last == "AverageMeter":
            return self.made(Container(node, "meter"))
        if name in knowledge.PROGRESS or last in ("tqdm", "trange", "track"):
            return arguments.positional[0] if arguments.positional else Plain(node)
        if root in knowledge.PLAIN_PACKAGES:
            return Plain(node)
        callee = External(node, name)
        if root in knowledge.HARMLESS_PACKAGES or last[:1].isupper():
            kind = "object" if last[:1].isupper() else "call"
            return self.made(Unknown(node, kind, arguments.all(), last, callee, self.mode))
        return self.unresolved(callee, last, arguments.all(), node)

    def _builtin(self, name: str, arguments: Arguments, node: cst.Call) -> Value:
        handler = self._builtins.get(name)
        if handler is not None:
            result = handler(self, arguments, node)
            if result is not None:
                return result
        if name in knowledge.PASSING_BUILTINS and arguments.positional:
            first = resolved(arguments.positional[0])
            if name == "next":
                return self.iterated(first, node)
            if isinstance(first, (Parameters, Unknown)):
                return first
            inside = tuple(first.elements()) if isinstance(first, Container) else (self.iterated(first, node),)
            return self.made(Container(node, name if name == "tuple" else "list", inside))
        if name in _PLAIN_BUILTINS:
            return Plain(node)
        return self.made(Unknown(node, "call", arguments.all(), name, None, self.mode))

    def _builtin_sum(self, arguments: Arguments, node: cst.Call) -> Value | None:
        if not arguments.positional:
            return None
        first = resolved(arguments.positional[0])
        return self.made_tensor("add", (first,), node)

    def _builtin_enumerate(self, arguments: Arguments, node: cst.Call) -> Value | None:
        if not arguments.positional:
            return None
        pair = Container(node, "tuple", (Plain(node), self.iterated(arguments.positional[0], node)))
        return self.made(Container(node, "generator", (self.made(pair),)))

    def _builtin_zip(self, arguments: Arguments, node: cst.Call) -> Value | None:
        row = Container(node, "tuple", tuple(self.iterated(item, node) for item in arguments.positional))
        return self.made(Container(node, "generator", (self.made(row),)))

    def _builtin_dict(self, arguments: Arguments, node: cst.Call) -> Value | None:
        made = self.made(Container(node, "dict", tuple(arguments.positional)))
        for key, value in arguments.keywords.items():
            made.set_part(key, value)
        return made

    def _builtin_list(self, arguments: Arguments, node: cst.Call) -> Value | None:
        return self.made(Container(node, "list")) if not arguments.all() else None

    def _builtin_super(self, arguments: Arguments, node: cst.Call) -> Value | None:
        return self.made(Unknown(node, "super", (), "super"))

    def _builtin_getattr(self, arguments: Arguments, node: cst.Call) -> Value | None:
        if len(arguments.positional) < 2:
            return None
        name = resolved(arguments.positional[1])
        if isinstance(name, Plain) and isinstance(name.constant, str):
            return self.attribute_of(arguments.positional[0], name.constant, node)
        return None

    def _deque(self, name: str, arguments: Arguments, node: cst.Call) -> Value:
        limit = arguments.get(1, "maxlen")
        return self.made(Container(node, "deque", bounded=limit is not None))

    def _defaultdict(self, name: str, arguments: Arguments, node: cst.Call) -> Value:
        made = self.made(Container(node, "dict"))
        factory = resolved(arguments.positional[0]) if arguments.positional else None
        if isinstance(factory, External) and factory.name in ("builtins.list", "collections.deque"):
            made.add(self.made(Container(node, "list")))
        elif isinstance(factory, External) and factory.name in ("builtins.int", "builtins.float"):
            made.add(Plain(node, 0))
        return made

    in_place_results: dict[Tensor, cst.BaseExpression]
    _builtins: ClassVar[dict[str, Callable[..., Value | None]]] = {
        "sum": _builtin_sum, "max": _builtin_sum, "min": _builtin_sum, "abs": _builtin_sum,
        "enumerate": _builtin_enumerate, "zip": _builtin_zip, "dict": _builtin_dict, "list": _builtin_list,
        "set": _builtin_list, "super": _builtin_super, "getattr": _builtin_getattr,
    }  # fmt: skip
    _externals: ClassVar[dict[str, Callable[..., Value | None]]] = {
        **dict.fromkeys(knowledge.SET_GRAD_MODE, _set_grad_mode),
        **dict.fromkeys(knowledge.DETECT_ANOMALY, _detect_anomaly),
        **dict.fromkeys(knowledge.SET_ANOMALY, _set_anomaly),
        **dict.fromkeys(knowledge.EMPTY_CACHE, _empty_cache),
        "torch.autograd.grad": _autograd_grad, "torch.autograd.backward": _autograd_backward,
        "torch_xla.core.xla_model.optimizer_step": _optimizer_step_function,
        "torch.nn.Parameter": _new_parameter, "torch.nn.parameter.Parameter": _new_parameter,
        "torch.autograd.Variable": _variable, "torch.autograd.variable.Variable": _variable,
        "torch.cuda.amp.GradScaler": _scaler, "torch.amp.GradScaler": _scaler,
        "torch.cuda.amp.grad_scaler.GradScaler": _scaler,
        "accelerate.Accelerator": _engine, "lightning.Fabric": _engine, "lightning.fabric.Fabric": _engine,
        "deepspeed.initialize": _deepspeed, "apex.amp.initialize": _amp_initialize,
        "apex.amp.scale_loss": _amp_scale_loss, "copy.deepcopy": _deepcopy, "copy.copy": _deepcopy,
        "collections.deque": _deque, "collections.defaultdict": _defaultdict,
    }  # fmt: skip


_PLAIN_BUILTINS = frozenset(
    (
        "len int float str bool range print isinstance hasattr type id repr round format open input bin hex "
        "ord chr hash callable any all divmod pow bytes vars dir issubclass setattr delattr globals locals"
    ).split()
)


def _mode(literal: object, if_true: GradMode, if_false: GradMode) -> GradMode:
    """The grad mode that a literal argument asks for."""
    if literal is True:
        return if_true
    return if_false if literal is False else GradMode.UNKNOWN
