"""Calls that initialize or load all weights of a network, directly or through the functions they call."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.lazy_pattern import LazyPattern
from torchlint.model.definitions import ClassInfo, Definitions, FunctionInfo
from torchlint.model.events import Backward, Call, Step
from torchlint.model.program import Program, Trace
from torchlint.model.queries import names
from torchlint.model.values import Module, Value, resolved
from torchlint.syntax.python_ast import arguments, called_name, dotted, is_literal, walk

_NAMED = LazyPattern(
    r"(?i)^_?(re)?(init|initiali[sz]e|reset)_?(all_?)?(weights?|params?|parameters)|weights?_init|init_?fn"
)
"""Names of functions that initialize weights, for functions outside the file."""
_WALKS = frozenset("modules named_modules parameters named_parameters apply".split())
_LOADING = (b"load_state_dict", b"torch.load", b"load_from_checkpoint", b"load_weights", b"load_model", b"pretrained")
_PREPARING = LazyPattern(r"load|fit|train|learn|restore|resume|init")
_DEPTH = 2
"""Maximum depth of classes analyzed, each of which creates an object of the next."""
_COMMON = frozenset("Conv1d Conv2d Conv3d Linear Embedding Module".split())
"""Layers that most networks have."""
_RANDOM = frozenset("normal_ uniform_ xavier_normal_ xavier_uniform_ kaiming_normal_ kaiming_uniform_ trunc_normal_ "
                    "orthogonal_ reset_parameters".split())  # fmt: skip


def initialized(call: ast.Call, definitions: Definitions) -> ast.expr | None:
    """The network whose layers a call initializes."""
    name, method = called_name(call), call.func
    if name == "apply" and isinstance(method, ast.Attribute) and call.args:
        given = names.function(call.args[0], definitions)
        is_meant = (
            _sets_all(given.node) if given is not None else _NAMED.search(dotted(call.args[0]).rpartition(".")[2])
        )
        return method.value if is_meant else None
    called = _called(call, definitions)
    if called is not None:
        is_all = bool(called.parameters) and _goes_over(called.node, called.parameters[0], definitions)
        network = (
            method.value if called.is_method and isinstance(method, ast.Attribute) else next(iter(call.args), None)
        )
        return network if is_all else None
    is_plain = not isinstance(method, ast.Attribute) and bool(call.args) and bool(_NAMED.search(name))
    return call.args[0] if is_plain and isinstance(call.args[0], (ast.Name, ast.Attribute)) else None


def loading(statement: ast.AST, network: str, definitions: Definitions) -> tuple[str, ast.AST] | None:
    """The network that a statement loads, if it is this one or a part of `self`, and the loading call."""
    target, call = "", None
    if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
        made = statement.value
        is_loaded = _is_pretrained(made) or _loads_itself(definitions.class_named(dotted(made.func)), made)
        target, call = dotted(statement.targets[0]), made if is_loaded else None
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        made = statement.value
        called = _called(made, definitions) if isinstance(made.func, ast.Attribute) else None
        loads = called_name(made) == "load_state_dict" or (called is not None and _loads(called))
        target = dotted(made.func.value) if isinstance(made.func, ast.Attribute) else ""
        call = made if loads else None
    is_it = target == network or (network == "self" and target.startswith("self."))
    return (target, call) if call is not None and is_it else None


def _called(call: ast.Call, definitions: Definitions) -> FunctionInfo | None:
    """The function or method that a call surely runs."""
    found = names.function(call.func, definitions)
    if found is None and isinstance(call.func, ast.Name):
        defined = definitions.defined(call.func.id)
        return defined if isinstance(defined, FunctionInfo) else None
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    made = names.only_value(owner, definitions) if found is None and isinstance(owner, ast.Name) else None
    info = definitions.class_named(dotted(made.func)) if isinstance(made, ast.Call) else None
    return info.method(call.func.attr) if info is not None and isinstance(call.func, ast.Attribute) else found


def _goes_over(function: ast.AST, network: str, definitions: Definitions) -> bool:
    """Whether a function initializes each layer of its first parameter."""
    for call in _calls(function):
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        if called_name(call) in _WALKS and owner is not None and dotted(owner) == network:
            given = names.function(call.args[0], definitions) if call.args else None
            return _sets_all(given.node if given is not None else function)
    return False


def _sets_all(function: ast.AST) -> bool:
    """Whether a function initializes common layers at random, without exceptions by name."""
    nodes = list(walk(function))
    chosen = [node for node in nodes if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn))]
    by_name = [node for node in chosen if not _is_of_class(node.left)]
    skips = bool(by_name) or any(isinstance(node, ast.Continue) for node in nodes)
    asked = [node for node in nodes if _is_of_class(node)]
    asked += [node for node in chosen if _is_of_class(node.left)]
    kinds = {dotted(item).rpartition(".")[2] for node in asked for item in walk(node) if isinstance(item, ast.expr)}
    is_narrow = bool(asked) and _COMMON.isdisjoint(kinds)
    return not skips and not is_narrow and any(called_name(call) in _RANDOM for call in _calls(function))


def _is_of_class(node: ast.AST) -> bool:
    """`isinstance(m, nn.Linear)`, `type(m)`."""
    return isinstance(node, ast.Call) and called_name(node) in ("isinstance", "type")


def _loads_itself(info: ClassInfo | None, made: ast.Call, depth: int = _DEPTH) -> bool:
    """Whether the constructor of an object, or of a part that its class creates, loads weights for these arguments."""
    init = info.method("__init__") if info is not None else None
    given = arguments(made)
    is_off = bool(given) and all(is_literal(item, None) or is_literal(item, False) for item in given)
    has_choice = init is not None and len(init.parameters) > 1
    if init is None or is_off or (has_choice and not given):
        return False
    inner = (call for call in _calls(init.node) if depth and info is not None)
    classes = (
        (init.owner.definitions.class_named(dotted(call.func)), call) for call in inner if init.owner is not None
    )
    return _loads(init) or any(_loads_itself(part, call, depth - 1) for part, call in classes if part is not info)


def _loads(method: FunctionInfo) -> bool:
    """Whether a method loads the weights of its own object."""
    own = method.parameters[0] if method.is_method and method.parameters else ""
    return bool(own) and any(dotted(call.func) == f"{own}.load_state_dict" for call in _calls(method.node))


def _calls(function: ast.AST) -> Iterator[ast.Call]:
    return (node for node in walk(function) if isinstance(node, ast.Call))


def _is_pretrained(call: ast.Call) -> bool:
    """`resnet50(pretrained=True)`, `resnet50(weights="DEFAULT")`."""
    given = {item.arg: item.value for item in call.keywords}
    weights = given.get("weights")
    has_weights = weights is not None and not isinstance(weights, ast.Name) and not is_literal(weights, None)
    return has_weights or is_literal(given.get("pretrained", ast.Pass()), True)


def tries_out(program: Program, trace: Trace, module: Value) -> bool:
    """Whether a file runs its own network untrained: nothing has trained it, or loaded weights."""
    network = resolved(module)
    info = network.info if isinstance(network, Module) else None
    if trace.root is not None or info is None or info.definitions is not program.definitions:
        return False
    if any(word in program.tree.source.code for word in _LOADING) or trace.of_kinds(Backward, Step):
        return False
    given = (call for call in trace.of(Call) if network in map(resolved, call.value.parents))
    return all(_is_own_figure(call, network, program.tree.node(call.site)) for call in given)


def _is_own_figure(call: Call, network: Value, node: ast.AST) -> bool:
    """Whether the code calls a network's method that neither trains nor loads it, by name: `net.loss(batch)`."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    is_own = resolved(call.value.parents[0]) is network
    return is_own and not _PREPARING.search(called_name(node))
