"""Makes `torchlint/pytorch/autograd_table.py`: what autograd keeps of the operators of the installed torch.

    python tests/generate_operators.py --write    # write the table
    python tests/generate_operators.py --check    # exit 1 when the table in the tree is stale

Two sources, both in the torch wheel. `derivatives.yaml`, read by torchgen's own loader, names the tensors
each derivative formula uses. The probe finds the same by running: forward, then the version counter of one
tensor moves on, then backward, which fails when autograd saved that tensor. Composite operators (`linear`,
`softmax`, `cross_entropy`) have no formula of their own, so only the probe knows them.

Where the two disagree the probe wins, since it sees what users see. The known reasons:
- a place that several formulas use is saved whichever input wants a gradient: `tensor2` of `addcdiv`;
- outputs are saved whichever formula uses them: the result of `copysign` for `other`;
- the formula of a name may be another backend's (`linear`, `matmul`: that of nested tensors);
- a public function may keep an output of its formula to itself (`adaptive_max_pool2d`: the indices).
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib
import inspect
import itertools
import sys
import textwrap
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

TABLE = Path(__file__).parents[1] / "torchlint" / "pytorch" / "autograd_table.py"
LINE = 110

# Imported by name: the type checker then needs no torch, and its warnings at import stay out of the tests.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch: Any = importlib.import_module("torch")
    F: Any = importlib.import_module("torch.nn.functional")
    nn: Any = importlib.import_module("torch.nn")


# --- the probe -------------------------------------------------------------------------------------------


class Call(NamedTuple):
    """A call to run: `args` line up with the operator's parameters, `kwargs` name them."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


Saves = dict[str, tuple[str, ...]]


def call(*args: Any, **kwargs: Any) -> Call:
    return Call(args, kwargs)


def tensors(value: Any) -> list[Any]:
    """The tensors in a value, those in lists and tuples too."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [found for item in value for found in tensors(item)]
    return []


def fresh(value: Any) -> Any:
    """A copy that shares no tensor with the original."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, (list, tuple)):
        return type(value)(map(fresh, value))
    return value


def differentiable_inputs(bound: Mapping[str, Any]) -> list[str]:
    """The names of the arguments that are floating-point tensors, or lists of them."""
    return [
        name
        for name, value in bound.items()
        if tensors(value) and all(tensor.is_floating_point() for tensor in tensors(value))
    ]


def quiet(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The result of a call whose warnings are of no interest here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.default_generator.manual_seed(0)
        return function(*args, **kwargs)


def outputs(result: Any) -> dict[str, Any]:
    """The places in a result where a tensor can be saved: `result`, or `result.N` of a tuple."""
    if isinstance(result, torch.Tensor):
        return {"result": result}
    if isinstance(result, (list, tuple)):
        return {f"result.{place}": item for place, item in enumerate(result) if tensors(item)}
    return {}


def tracked(result: Any) -> list[Any]:
    return [tensor for tensor in tensors(result) if tensor.requires_grad]


def backward_fails(result: Any, changed: list[Any]) -> bool:
    """Whether backward finds that it needs the tensors that were changed."""
    ends = tracked(result)
    # Edges taken before the change: the outputs of `chunk` refuse to be changed and used again.
    edges = [torch.autograd.graph.get_gradient_edge(end) for end in ends]
    for tensor in changed:
        torch.autograd.graph.increment_version(tensor)
    try:
        quiet(torch.autograd.backward, edges, [torch.ones_like(end) for end in ends])
    except RuntimeError as error:
        if "modified by an inplace operation" in str(error):
            return True
        raise
    return False


class Probe:
    """Runs one call of a function again and again, each time with another tensor changed after it."""

    def __init__(self, function: Callable[..., Any], parameters: Iterable[str], sample: Call) -> None:
        self.function = function
        self.parameters = tuple(parameters)
        self.sample = sample
        self.bound = {**dict(zip(self.parameters, sample.args, strict=False)), **sample.kwargs}

    def run(self, needs_grad: Iterable[str]) -> tuple[dict[str, Any], Any]:
        """The arguments by name and the result, with gradients wanted for the named arguments only."""
        args, kwargs = (
            fresh(self.sample.args),
            {key: fresh(value) for key, value in self.sample.kwargs.items()},
        )
        bound = {**dict(zip(self.parameters, args, strict=False)), **kwargs}
        for name in needs_grad:
            for tensor in tensors(bound[name]):
                tensor.requires_grad_()
        return bound, quiet(self.function, *args, **kwargs)

    def places(self, needs_grad: Iterable[str]) -> list[str]:
        """Every place that could be saved: the tensor arguments and the outputs."""
        bound, result = self.run(needs_grad)
        return [*(name for name, value in bound.items() if tensors(value)), *outputs(result)]

    def is_saved(self, place: str, needs_grad: Iterable[str]) -> bool:
        bound, result = self.run(needs_grad)
        return backward_fails(result, tensors({**bound, **outputs(result)}[place]))

    def carries_graph(self, needs_grad: Iterable[str]) -> bool:
        return bool(tracked(self.run(needs_grad)[1]))

    def saved(self, needs_grad: Iterable[str]) -> tuple[str, ...]:
        """The saved tensors if gradients are needed for the named arguments."""
        return tuple(place for place in self.places(needs_grad) if self.is_saved(place, needs_grad))

    def saves(self) -> Saves:
        """For each argument that gradients can be wanted for, what is saved when it is the only one."""
        found = {}
        for name in differentiable_inputs(self.bound):
            # `running_mean` of `batch_norm` has no gradient; a number given as a tensor can not want one.
            with contextlib.suppress(RuntimeError, TypeError):
                if self.carries_graph([name]):
                    found[name] = self.saved([name])
        return found


# --- operators by name -----------------------------------------------------------------------------------

SUBMODULES = ("linalg", "special", "fft")

# Kernels of one backend and steps of a composite: nobody writes these names in training code.
INTERNAL = (
    "batch_norm_",
    "choose_qparams",
    "cudnn_",
    "fake_quantize",
    "fbgemm_",
    "fused_",
    "grid_sampler",
    "miopen_",
    "mkldnn_",
    "native_",
    "norm_except_dim",
    "normal_functional",
    "q_",
    "quantize",
    "slice_inverse",
    "sparse_",
    "to_mkldnn",
    "unique_consecutive",
    "unsafe_",
    "values",
)
INTERNAL_ENDINGS = ("_backward", "_copy", "_forward", "_generator", "_jvp", "_indices")


def homes(name: str) -> dict[str, Callable[..., Any]]:
    """Where a public name is found: as a method of Tensor, a function of torch or of torch.nn.functional."""
    module, _, function = name.rpartition(".")
    owners = {module: getattr(torch, module)} if module else {"Tensor": torch.Tensor, "torch": torch, "F": F}
    found = {home: getattr(owner, function, None) for home, owner in owners.items()}
    return {home: value for home, value in found.items() if callable(value) and not isinstance(value, type)}


def public_name(native: str) -> str | None:
    """The name people write for a native function: `linalg_inv` is `torch.linalg.inv`."""
    if native.startswith(("_", *INTERNAL)) or native.endswith(INTERNAL_ENDINGS):
        return None
    module, _, rest = native.partition("_")
    if module in SUBMODULES and not rest.startswith("_") and hasattr(getattr(torch, module), rest):
        return f"{module}.{rest}"
    return native if homes(native) else None


def python_parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    """The parameters of a function written in Python; none where it hides them behind `*args`."""
    if not inspect.isfunction(function):
        return ()
    signature = inspect.signature(function).parameters.values()
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in signature):
        return ()
    return self_first(parameter.name for parameter in signature)


def self_first(names: Iterable[str]) -> tuple[str, ...]:
    """Parameter names where functions' `input` is called `self`, as in methods."""
    return tuple("self" if name == "input" else name for name in names)


def starred(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda values: function(*values)


def written_form(name: str, schema_parameters: tuple[str, ...]) -> tuple[Callable[..., Any], tuple[str, ...]]:
    """The function people call by a name, and its parameters: torch.nn.functional's own where it has some."""
    found = homes(name)
    functional = found.get("F")
    own = python_parameters(functional) if functional else ()
    extends = own[: len(schema_parameters)] == schema_parameters
    if functional and own and (extends or name in SAMPLES or "torch" not in found):
        return functional, own
    if name in STARRED:
        return starred(getattr(torch, name)), schema_parameters
    if set(found) == {"Tensor"}:
        return method_as_function(found["Tensor"], schema_parameters), schema_parameters
    return next(found[home] for home in ("torch", "F", *SUBMODULES) if home in found), schema_parameters


def method_as_function(method: Callable[..., Any], parameters: tuple[str, ...]) -> Callable[..., Any]:
    """A method as a function of the same parameters, wherever `self` stands among them."""
    place = parameters.index("self")

    def function(*args: Any, **kwargs: Any) -> Any:
        return method(args[place], *args[:place], *args[place + 1 :], **kwargs)

    return function


# --- the schemas and formulas of the wheel ---------------------------------------------------------------


class Overload(NamedTuple):
    """One schema of a name, with what its formulas save (None: a composite has no formulas)."""

    schema: Any
    formulas: Saves | None


def load_natives() -> tuple[list[Any], dict[Any, Any]]:
    """All native functions, and the differentiability information of those that have formulas."""
    torchgen: Any = importlib.import_module("torchgen")
    folder = Path(torchgen.__file__).parent / "packaged"
    native = folder / "ATen" / "native"
    paths = [str(native / "native_functions.yaml"), str(native / "tags.yaml")]
    gen: Any = importlib.import_module("torchgen.gen")
    loader: Any = importlib.import_module("torchgen.packaged.autograd.load_derivatives")
    formulas, _ = loader.load_derivatives(str(folder / "autograd" / "derivatives.yaml"), *paths)
    return gen.parse_native_yaml(*paths).native_functions, formulas


def attribute_name(attribute: Any) -> str:
    name = attribute.nctype.name
    return str(name) if isinstance(name, str) else str(name.name)


def whole_tensor(attribute: Any) -> bool:
    """Whether a saved attribute is a tensor itself, not its sizes or its type."""
    return "name='Tensor'" in str(attribute.nctype.type) and attribute.expr == attribute_name(attribute)


def output_places(schema: Any) -> dict[str, str]:
    """The loader's names of the outputs, as places in the result."""
    returns = schema.returns
    if len(returns) == 1:
        return {returns[0].name or "result": "result", "result": "result"}
    pairs = [(f"result{place}", returned.name, f"result.{place}") for place, returned in enumerate(returns)]
    return {name: place for default, given, place in pairs for name in (default, given) if name}


def formula_saves(information: Any) -> Saves:
    """For each differentiable input, the tensors its formula uses."""
    schema = information.func.func
    places = output_places(schema)
    order = [argument.name for argument in schema.arguments.flat_all]
    saves: Saves = {}
    for derivative in information.derivatives:
        used = {attribute_name(item) for item in derivative.saved_inputs if whole_tensor(item)}
        kept = {places[attribute_name(item)] for item in derivative.saved_outputs if whole_tensor(item)}
        for name in derivative.var_names:
            saves[name] = (*sorted(used, key=order.index), *sorted(kept))
    return {key: self_first(places) for key, places in zip(self_first(saves), saves.values(), strict=True)}


def tensor_arguments(schema: Any) -> list[Any]:
    return [argument for argument in schema.arguments.flat_all if argument.type.is_tensor_like()]


def is_public_overload(schema: Any) -> bool:
    """A functional schema with a tensor argument, without named dimensions."""
    if str(schema.kind()) != "SchemaKind.functional" or not tensor_arguments(schema):
        return False
    arguments = schema.arguments.flat_all
    return not any("Dimname" in str(argument.type) or argument.name == "out_dtype" for argument in arguments)


def overloads_by_name() -> dict[str, list[Overload]]:
    """The overloads of every public name, those with the fewest required arguments first."""
    natives, formulas = load_natives()
    found: dict[str, list[Overload]] = defaultdict(list)
    for native in natives:
        schema = native.func
        name = public_name(schema.name.name.base)
        if name and is_public_overload(schema):
            information = formulas.get(schema, {}).get("Default")
            saves = formula_saves(information) if information and information.derivatives else None
            found[name].append(Overload(schema, saves))
    for overloads in found.values():
        overloads.sort(key=lambda overload: len(required(overload.schema)))
    return found


def parameters_of(schema: Any) -> tuple[str, ...]:
    return self_first(str(argument.name) for argument in schema.arguments.flat_all)


def required(schema: Any) -> list[Any]:
    return [argument for argument in schema.arguments.flat_positional if argument.default is None]


# --- sample calls ----------------------------------------------------------------------------------------

STARRED = ("block_diag", "broadcast_tensors", "cartesian_prod", "chain_matmul")

# Given arguments of the right type but the wrong value, these read and write memory that is not theirs.
UNSAFE = (
    "lu_",
    "linalg.lu",
    "linalg.ldl",
    "ormqr",
    "orgqr",
    "lstm",
    "gru",
    "rnn",
    "max_unpool",
    "segment_reduce",
)

INDICES = frozenset({"index", "indices"})
MASKS = frozenset({"mask", "condition"})
SHAPES = ((3, 3), (3,), (2, 3, 3), (), (2, 3, 4, 4), (2, 3, 4, 4, 4))


def floats(*shape: int) -> Any:
    """Numbers between 0 and 1; square matrices are symmetric and positive definite."""
    torch.default_generator.manual_seed(len(shape))
    values = torch.rand(shape) * 0.3 + 0.1
    if len(shape) > 1 and shape[-1] == shape[-2]:
        return (values + values.mT) / 2 + 0.4 * torch.eye(shape[-1])
    return values


def ints(*shape: int, below: int = 3) -> Any:
    return torch.arange(torch.Size(shape).numel()).reshape(shape) % below


def mask(*shape: int) -> Any:
    return ints(*shape, below=2).bool()


def filler(argument: Any, shape: tuple[int, ...], number: int, whole_target: bool) -> Any:
    """A value of the type that a required argument wants."""
    if not argument.type.is_tensor_like():
        return plain_filler(argument.type, number)
    if argument.name in INDICES or (argument.name == "target" and whole_target):
        made = ints(*shape)
    else:
        made = mask(*shape) if argument.name in MASKS else floats(*shape)
    return [made, made.clone()] if argument.type.is_list_like() else made


def plain_filler(kind: Any, number: int) -> Any:
    as_list = kind.is_list_like()
    if as_list:
        return [number] * (as_list.size or 1)
    simple = {"Scalar": 0.5, "float": 0.5, "bool": False, "ScalarType": torch.float64, "str": ""}
    return simple.get(str(kind).rstrip("?"), number)


def schema_calls(schema: Any) -> Iterator[Call]:
    """Calls of a schema with its required arguments made up."""
    wanted = required(schema)
    numbers = (1, 0, 2) if any(not argument.type.is_tensor_like() for argument in wanted) else (0,)
    whole_targets = (False, True) if any(argument.name == "target" for argument in wanted) else (False,)
    for shape, number, whole in itertools.product(SHAPES, numbers, whole_targets):
        yield Call(tuple(filler(argument, shape, number, whole) for argument in wanted), {})


def logits() -> Any:
    return torch.log_softmax(floats(3, 4), dim=1)


def samples() -> dict[str, list[Call]]:
    """Calls of the operators whose arguments must fit each other."""
    signal, image, volume = floats(2, 4, 8), floats(2, 4, 6, 6), floats(2, 4, 6, 6, 6)
    channels = (floats(4), floats(4), floats(4) + 1, floats(4))
    matrix, vector, target = floats(3, 4), floats(4), floats(3, 4) + 0.05
    labels, signs = ints(3), ints(3) % 2 * 2.0 - 1
    heads = floats(2, 2, 5, 4)
    dropout = {"p": 0.5, "training": True}
    return {
        "addbmm": [call(floats(3, 5), floats(2, 3, 4), floats(2, 4, 5))],
        "addmm": [call(floats(5), matrix, floats(4, 5))],
        "addmv": [call(floats(3), matrix, vector)],
        "affine_grid": [call(floats(2, 2, 3), [2, 4, 6, 6])],
        "alpha_dropout": [call(matrix, **dropout)],
        "as_strided_scatter": [call(floats(4), floats(2), [2], [1])],
        "baddbmm": [call(floats(2, 3, 5), floats(2, 3, 4), floats(2, 4, 5))],
        "batch_norm": [call(image, *channels[:2], *channels[2:], training=True)],
        "bilinear": [call(floats(3, 4), floats(3, 5), floats(2, 4, 5), floats(2))],
        "binary_cross_entropy": [call(matrix, target)],
        "binary_cross_entropy_with_logits": [call(matrix, target)],
        "block_diag": [call([matrix, target])],
        "broadcast_tensors": [call([matrix, vector])],
        "cartesian_prod": [call([vector, vector])],
        "chain_matmul": [call([matrix, floats(4, 3)])],
        "chunk": [call(matrix, 2)],
        "clamp": [call(matrix, 0.1, 0.2), call(matrix, target - 0.1, target)],
        "clip": [call(matrix, 0.1, 0.2), call(matrix, target - 0.1, target)],
        "conv1d": [call(signal, floats(3, 4, 3), floats(3))],
        "conv2d": [call(image, floats(3, 4, 3, 3), floats(3))],
        "conv3d": [call(volume, floats(3, 4, 3, 3, 3), floats(3))],
        "conv_transpose1d": [call(signal, floats(4, 3, 3), floats(3))],
        "conv_transpose2d": [call(image, floats(4, 3, 3, 3), floats(3))],
        "conv_transpose3d": [call(volume, floats(4, 3, 3, 3, 3), floats(3))],
        "cosine_embedding_loss": [call(matrix, target, signs)],
        "cosine_similarity": [call(matrix, target)],
        "cross_entropy": [call(matrix, labels, vector), call(matrix, labels), call(matrix, target)],
        "ctc_loss": [call(floats(5, 2, 4).log_softmax(2), ints(2, 2) % 2 + 1, ints(2) * 0 + 5, ints(2) * 0 + 2)],
        "diagonal_scatter": [call(floats(3, 3), floats(3))],
        "dropout": [call(matrix, **dropout)],
        "dropout1d": [call(signal, **dropout)],
        "dropout2d": [call(image, **dropout)],
        "dropout3d": [call(volume, **dropout)],
        "einsum": [call("ij,jk->ik", [matrix, floats(4, 3)])],
        "embedding": [call(labels, floats(3, 4))],
        "embedding_bag": [call(ints(2, 3), floats(3, 4))],
        "feature_alpha_dropout": [call(image, **dropout)],
        "fold": [call(floats(1, 4, 9), [4, 4], [2, 2])],
        "gaussian_nll_loss": [call(matrix, target, target + 1)],
        "grid_sample": [call(image, floats(2, 5, 5, 2), align_corners=False)],
        "group_norm": [call(image, 2, *channels[2:])],
        "gumbel_softmax": [call(matrix)],
        "hinge_embedding_loss": [call(floats(3), signs)],
        "huber_loss": [call(matrix, target)],
        "index_reduce": [call(floats(3, 4), 0, ints(3), floats(3, 4), "amax")],
        "instance_norm": [call(image, weight=floats(4), bias=floats(4))],
        "interpolate": [call(image, scale_factor=2.0)],
        "kl_div": [call(logits(), target)],
        "layer_norm": [call(matrix, [4], floats(4), floats(4))],
        "linalg.lu": [call(floats(3, 3))],
        "linalg.lu_factor": [call(floats(3, 3))],
        "linear": [call(matrix, floats(5, 4), floats(5))],
        "local_response_norm": [call(image, 2)],
        "logsigmoid": [call(matrix)],
        "lp_pool1d": [call(signal, 2.0, 2)],
        "lp_pool2d": [call(image, 2.0, 2)],
        "lp_pool3d": [call(volume, 2.0, 2)],
        "margin_ranking_loss": [call(floats(3), floats(3) + 0.1, signs)],
        "matmul": [
            call(matrix, floats(4, 5)),
            call(floats(2, 3, 4), floats(2, 4, 5)),
            call(signal, floats(8, 3)),
        ],
        "max_unpool2d": [call(*F.max_pool2d(image, 2, return_indices=True), 2)],
        "multilabel_soft_margin_loss": [call(matrix, target)],
        "mv": [call(matrix, vector)],
        "nll_loss": [call(logits(), labels)],
        "normalize": [call(matrix)],
        "pad": [call(matrix, [1, 1]), call(signal, [1, 1], "reflect"), call(signal, [1, 1], "replicate")],
        "pixel_shuffle": [call(image, 2)],
        "poisson_nll_loss": [call(matrix, target)],
        "prelu": [call(image, floats(4))],
        "repeat_interleave": [call(matrix, 2)],
        "rms_norm": [call(matrix, [4], floats(4))],
        "scaled_dot_product_attention": [call(heads, heads + 0.1, heads - 0.1)],
        "scatter_reduce": [call(floats(3, 4), 0, ints(3, 4), floats(3, 4), "amax")],
        "select_scatter": [call(floats(3, 4), floats(4), 0, 1)],
        "slice_scatter": [call(floats(3, 4), floats(3, 4))],
        "softmin": [call(matrix, dim=1)],
        "softsign": [call(matrix)],
        "split": [call(matrix, 2)],
        "split_with_sizes": [call(matrix, [1, 2])],
        "stft": [call(floats(64), 16, window=torch.ones(16), return_complex=True)],
        "tanhshrink": [call(matrix)],
        "tensordot": [call(matrix, floats(4, 3), 1)],
        "triplet_margin_loss": [call(matrix, target, matrix + 0.3)],
        "triplet_margin_with_distance_loss": [call(matrix, target, matrix + 0.3)],
        "unbind": [call(matrix)],
        "unflatten": [call(matrix, 1, [2, 2])],
        "upsample": [call(image, scale_factor=2)],
    }


SAMPLES = samples()


def works(probe: Probe) -> bool:
    try:
        probe.run(())
    except Exception:
        return False
    return True


def made_up_probes(name: str, schema: Any) -> Iterator[Probe]:
    """Probes of a schema with made-up arguments, those that run."""
    if name.startswith(UNSAFE):
        return
    function, parameters = written_form(name, parameters_of(schema))
    probes = (Probe(function, parameters, sample) for sample in schema_calls(schema))
    yield from filter(works, probes)


# --- the table -------------------------------------------------------------------------------------------


class Form(NamedTuple):
    """One way to call a name: its parameters, which of them were tensors, and what was saved."""

    parameters: tuple[str, ...]
    given: frozenset[str]
    saves: Saves


def form_of(probe: Probe) -> Form:
    given = (name for name, value in probe.bound.items() if tensors(value))
    return Form(probe.parameters, frozenset(given), probe.saves())


def completed(form: Form, formulas: Saves) -> Form:
    """A form with what the formulas know of the optional tensors that its probe did not give."""
    absent = {name for name in formulas if name in form.parameters and name not in form.given}
    saves = {name: formulas[name] for name in absent}
    for name, places in form.saves.items():
        unseen = (place for place in formulas.get(name, ()) if place in form.parameters)
        saves[name] = (*places, *(place for place in unseen if place not in form.given))
    return Form(form.parameters, form.given | absent, saves)


def probed_form(name: str, overload: Overload) -> Form | None:
    """The tensors that the first differentiable call of an overload saves; its formulas if no call runs."""
    forms = (form_of(probe) for probe in made_up_probes(name, overload.schema))
    found = next((form for form in forms if form.saves), None)
    if overload.formulas is None:
        return found
    if found:
        return completed(found, overload.formulas)
    parameters = parameters_of(overload.schema)
    return Form(
        parameters,
        frozenset(self_first(a.name for a in tensor_arguments(overload.schema))),
        overload.formulas,
    )


def sampled_forms(name: str, schema_parameters: tuple[str, ...]) -> Iterator[Form]:
    function, parameters = written_form(name, schema_parameters)
    for sample in SAMPLES[name]:
        form = form_of(Probe(function, parameters, sample))
        assert form.saves, f"the sample of {name} carries no graph"
        yield form


def forms_of(name: str, overloads: list[Overload]) -> list[Form]:
    """The forms of a name: of its samples, or else of its overloads."""
    if name in SAMPLES:
        schemas = [parameters_of(overload.schema) for overload in overloads]
        formulas = next((overload.formulas for overload in overloads if overload.formulas), {})
        return [completed(form, formulas) for form in sampled_forms(name, max(schemas, key=len, default=("self",)))]
    forms = (probed_form(name, overload) for overload in overloads)
    return [form for form in forms if form and form.saves]


def agree(one: Form, other: Form) -> bool:
    """Whether two forms save the same of the tensors that both are given, and of the result."""
    both = one.given & other.given

    def common(form: Form, name: str) -> set[str]:
        return {place for place in form.saves[name] if place in both or place not in form.parameters}

    return all(common(one, name) == common(other, name) for name in one.saves.keys() & other.saves.keys())


def merged(one: Form, other: Form) -> Form:
    """Two forms as one that claims nothing wrong of either: where they differ, what both save."""
    longer = max(one, other, key=lambda form: (len(form.parameters), len(form.given)))
    saves = dict(longer.saves)
    for form in (one, other):
        for name, places in form.saves.items():
            saves.setdefault(name, places)
    for name in one.saves.keys() & other.saves.keys():
        saves[name] = merged_places(name, one, other)
    return Form(longer.parameters, one.given | other.given, saves)


def merged_places(name: str, one: Form, other: Form) -> tuple[str, ...]:
    """A place counts when both forms save it, or when one does and the other has a number there."""

    def holds(place: str, form: Form) -> bool:
        return place in form.saves[name] or (place in form.parameters and place not in form.given)

    places = dict.fromkeys((*one.saves[name], *other.saves[name]))
    return tuple(place for place in places if holds(place, one) and holds(place, other))


def names_of_forms(name: str, forms: list[Form]) -> dict[str, Form]:
    """The forms by key. Those that take other arguments and save other things get a key of their own:
    `max` keeps its input and its result, `max.dim` the indices, `max.other` both inputs."""
    found: dict[str, Form] = {}
    for form in forms:
        base = found.get(name)
        extra = [parameter for parameter in form.parameters if base and parameter not in base.parameters]
        key = f"{name}.{extra[0]}" if base and extra and not agree(base, form) else name
        found[key] = merged(found[key], form) if key in found else form
    return found


def operators(natives: Mapping[str, list[Overload]]) -> dict[str, Form]:
    found: dict[str, Form] = {}
    for name in sorted({*natives, *SAMPLES}):
        found.update(names_of_forms(name, forms_of(name, natives.get(name, []))))
    return found


# --- views and in-place changes --------------------------------------------------------------------------

# Views that no schema declares, or whose arguments cannot be made up; both outcomes where there are two.
VIEW_ATTRIBUTES = ("H", "T", "data", "imag", "mH", "mT", "real")
# Copies only when the tensor is elsewhere, which a probe on one device does not see.
DEVICE_MOVES = ("cpu", "cuda")


def view_samples() -> dict[str, list[Call]]:
    matrix = floats(3, 4)
    return {
        "as_tensor": [call(matrix), call(matrix, dtype=torch.float64)],
        "asarray": [call(matrix), call(matrix, dtype=torch.float64)],
        "broadcast_tensors": [call(matrix, matrix)],
        "chunk": [call(matrix, 2)],
        "double": [call(matrix), call(matrix.double())],
        "dsplit": [call(floats(2, 2, 4), 2)],
        "float": [call(matrix), call(matrix.double())],
        "flatten": [call(matrix), call(matrix.mT)],
        "half": [call(matrix), call(matrix.half())],
        "bfloat16": [call(matrix), call(matrix.bfloat16())],
        "narrow": [call(matrix, 0, 0, 1)],
        "numpy": [call(matrix)],
        "reshape": [call(matrix, [12]), call(matrix.mT, [12])],
        "reshape_as": [call(matrix, floats(12)), call(matrix.mT, floats(12))],
        "split": [call(matrix, 2)],
        "split_with_sizes": [call(matrix, [1, 2])],
        "to": [call(matrix, torch.float32), call(matrix, torch.float64)],
        "type": [call(matrix, torch.float32), call(matrix, torch.float64)],
        "type_as": [call(matrix, matrix), call(matrix, matrix.double())],
        "unbind": [call(matrix)],
        "unflatten": [call(matrix, 1, [2, 2])],
        "unfold": [call(matrix, 0, 2, 1)],
        "view_as_complex": [call(floats(3, 2))],
        "view_as_real": [call(torch.view_as_complex(floats(3, 2)))],
    }


def shares_storage(result: Any, given: Any) -> bool:
    """Whether a result, or the first of several, lies in the memory of a tensor that was given."""
    own = {tensor.untyped_storage().data_ptr() for tensor in tensors(given)}
    if hasattr(result, "__array_interface__") and not tensors(result):
        return result.__array_interface__["data"][0] in own
    return any(tensor.untyped_storage().data_ptr() in own for tensor in tensors(result)[:1])


def transposed(value: Any) -> Any:
    """The same tensors with their last dimensions' strides the other way around."""
    if isinstance(value, torch.Tensor) and value.dim() > 1:
        return value.mT.contiguous().mT
    return value


def sharing(function: Callable[..., Any], samples: Iterable[Call]) -> set[bool]:
    """Whether results share storage with the first tensor given: always, never, or both."""
    seen = set()
    for sample in samples:
        with contextlib.suppress(Exception):
            given = tensors(sample.args)[:1]
            seen.add(shares_storage(quiet(function, *sample.args, **sample.kwargs), given))
    return seen


def declares_view(schema: Any) -> bool:
    """Whether a schema says that its result may be a view of an argument: `Tensor(a)`."""
    return any(returned.annotation and not returned.annotation.is_write for returned in schema.returns)


def view_outcomes(natives: Mapping[str, list[Overload]]) -> dict[str, set[bool]]:
    """For each name that can give views, whether its result shares storage: always, or only sometimes."""
    found: dict[str, set[bool]] = {name: {True} for name in VIEW_ATTRIBUTES}
    found |= {name: {True, False} for name in DEVICE_MOVES}
    for name, overloads in natives.items():
        for schema in (overload.schema for overload in overloads if declares_view(overload.schema)):
            function, _ = written_form(name, parameters_of(schema))
            calls = [
                *schema_calls(schema),
                *(Call(tuple(map(transposed, c.args)), {}) for c in schema_calls(schema)),
            ]
            found.setdefault(name, set()).update(sharing(function, calls))
    for name, calls in view_samples().items():
        found[name] = set().union(*(sharing(function, calls) for function in homes(name).values()))
    # A function of the same name that copies (`torch.nn.functional.unfold`) makes a view only possible.
    found["unfold"].add(False)
    return {name: outcomes for name, outcomes in found.items() if True in outcomes}


# In-place by name, but they change no version counter; their arguments cannot be made up.
METADATA_ONLY = frozenset({"resize_as_sparse_", "sparse_resize_", "sparse_resize_and_clear_"})


def inplace_names() -> set[str]:
    names = {name for owner in (torch.Tensor, torch, F) for name in dir(owner)}
    return {name for name in names if name.endswith("_") and not name.startswith("_")}


def changes_values(name: str) -> bool:
    """Whether an in-place method moves the version counter; taken for granted where no plain call runs."""
    tensor = floats(3, 3)
    method = homes(name).get("Tensor")
    if method is None:
        return True
    try:
        quiet(method, tensor)
    except Exception:
        return name not in METADATA_ONLY
    return bool(tensor._version > 0)


# --- results without a graph -----------------------------------------------------------------------------

# These want integers, where nothing is differentiable.
INTEGER = frozenset(
    {
        "bincount",
        "bitwise_and",
        "bitwise_left_shift",
        "bitwise_not",
        "bitwise_or",
        "bitwise_right_shift",
        "bitwise_xor",
        "gcd",
        "lcm",
        "one_hot",
    }
)
# Methods with effects beyond their result.
EFFECTS = frozenset({"backward", "register_hook", "retain_grad"})


def result_tracked(probe: Probe) -> bool | None:
    """Whether the result carries a graph when every input wants gradients; None where the call fails."""
    wanted = differentiable_inputs(probe.bound)
    try:
        return probe.carries_graph(wanted) if wanted else None
    except Exception:
        return None


def method_without_graph(name: str) -> bool:
    """Whether a method without arguments gives a value that carries no graph."""
    tensor = floats(1).requires_grad_()
    try:
        result = quiet(getattr(torch.Tensor, name), tensor)
    except Exception:
        return False
    return result is not None and result is not tensor and not tracked(result)


def never_tracked(name: str, overloads: list[Overload]) -> bool:
    seen = {result_tracked(probe) for overload in overloads for probe in made_up_probes(name, overload.schema)}
    return False in seen and True not in seen


def not_differentiable(natives: Mapping[str, list[Overload]], known: Iterable[str]) -> set[str]:
    methods = {name for name in dir(torch.Tensor) if callable(getattr(torch.Tensor, name))}
    plain = {name for name in methods if not name.startswith("_") and not name.endswith("_")}
    found = {name for name in plain - natives.keys() - EFFECTS if method_without_graph(name)}
    unknown = natives.keys() - known
    found |= {name for name in unknown if never_tracked(name, natives[name])}
    # `type()` gives a name, `type(dtype)` a tensor.
    return (found | INTEGER) - {*known, "type"}


# --- modules ---------------------------------------------------------------------------------------------


class ModuleCall(NamedTuple):
    """The arguments of a module's constructor, and those of its call."""

    constructor: tuple[Any, ...]
    inputs: tuple[Any, ...]


@functools.cache
def module_calls() -> dict[str, ModuleCall]:
    """How to make and call the modules of torch.nn; those not named here take no argument and any input."""
    signal, image, volume = floats(2, 4, 8), floats(2, 4, 6, 6), floats(2, 4, 6, 6, 6)
    matrix, target, signs = floats(3, 4), floats(3, 4) + 0.05, ints(3) % 2 * 2.0 - 1
    sequence = floats(5, 3, 4)
    sized = {"1d": signal, "2d": image, "3d": volume}
    calls: dict[str, ModuleCall] = {}
    for suffix, value in sized.items():
        calls |= {f"{name}{suffix}": ModuleCall((4, 3, 3), (value,)) for name in ("Conv", "ConvTranspose")}
        calls |= {f"{name}{suffix}": ModuleCall((4,), (value,)) for name in ("BatchNorm", "InstanceNorm")}
        calls |= {f"{name}{suffix}": ModuleCall((2,), (value,)) for name in ("MaxPool", "AvgPool")}
        calls |= {f"AdaptiveMaxPool{suffix}": ModuleCall((2,), (value,))}
        # To one element, as before a classifier, it is a mean and keeps nothing.
        calls |= {f"AdaptiveAvgPool{suffix}": ModuleCall((1,), (value,))}
        calls |= {f"{name}Pad{suffix}": ModuleCall((1,), (value,)) for name in PADDINGS}
        calls |= {f"ConstantPad{suffix}": ModuleCall((1, 0.0), (value,))}
        calls |= {
            f"LPPool{suffix}": ModuleCall((2.0, 2), (value,)),
            f"Dropout{suffix}": ModuleCall((), (value,)),
        }
    calls |= {name: ModuleCall((4, 3), (sequence,)) for name in ("RNN", "LSTM", "GRU")}
    calls |= {name: ModuleCall((4, 3), (matrix,)) for name in ("RNNCell", "LSTMCell", "GRUCell")}
    calls |= {name: ModuleCall((), (matrix, target)) for name in ELEMENTWISE_LOSSES}
    return calls | {
        "Bilinear": ModuleCall((4, 4, 2), (matrix, target)),
        "CTCLoss": ModuleCall(
            (), (floats(5, 2, 4).log_softmax(2), ints(2, 2) % 2 + 1, ints(2) * 0 + 5, ints(2) * 0 + 2)
        ),
        "ChannelShuffle": ModuleCall((2,), (image,)),
        "CosineEmbeddingLoss": ModuleCall((), (matrix, target, signs)),
        "CosineSimilarity": ModuleCall((), (matrix, target)),
        "CrossEntropyLoss": ModuleCall((), (matrix, ints(3))),
        "CrossMapLRN2d": ModuleCall((2,), (image,)),
        "Embedding": ModuleCall((3, 4), (ints(3),)),
        "EmbeddingBag": ModuleCall((3, 4), (ints(2, 3),)),
        "FeatureAlphaDropout": ModuleCall((), (image,)),
        "Fold": ModuleCall(([4, 4], [2, 2]), (floats(1, 4, 9),)),
        "FractionalMaxPool2d": ModuleCall((2, 2), (image,)),
        "FractionalMaxPool3d": ModuleCall((2, 2), (volume,)),
        "GaussianNLLLoss": ModuleCall((), (matrix, target, target + 1)),
        "GroupNorm": ModuleCall((2, 4), (image,)),
        "HingeEmbeddingLoss": ModuleCall((), (floats(3), signs)),
        "LayerNorm": ModuleCall((4,), (matrix,)),
        "Linear": ModuleCall((4, 5), (matrix,)),
        "LocalResponseNorm": ModuleCall((2,), (image,)),
        "LogSoftmax": ModuleCall((1,), (matrix,)),
        "MarginRankingLoss": ModuleCall((), (floats(3), floats(3) + 0.1, signs)),
        "MaxUnpool2d": ModuleCall((2,), F.max_pool2d(image, 2, return_indices=True)),
        "MultiLabelMarginLoss": ModuleCall((), (matrix, ints(3, 4))),
        "MultiMarginLoss": ModuleCall((), (matrix, ints(3))),
        "MultiheadAttention": ModuleCall((4, 2), (sequence, sequence + 0.1, sequence - 0.1)),
        "NLLLoss": ModuleCall((), (logits(), ints(3))),
        "PReLU": ModuleCall((), (image,)),
        "PairwiseDistance": ModuleCall((), (matrix, target)),
        "PixelShuffle": ModuleCall((2,), (image,)),
        "PixelUnshuffle": ModuleCall((2,), (image,)),
        "RMSNorm": ModuleCall((4,), (matrix,)),
        "SoftMarginLoss": ModuleCall((), (floats(3), signs)),
        "Softmax": ModuleCall((1,), (matrix,)),
        "Softmax2d": ModuleCall((), (image,)),
        "Softmin": ModuleCall((1,), (matrix,)),
        "Threshold": ModuleCall((0.1, 0.0), (matrix,)),
        "TransformerDecoderLayer": ModuleCall((4, 2, 8), (sequence, sequence + 0.1)),
        "TransformerEncoderLayer": ModuleCall((4, 2, 8), (sequence,)),
        "TripletMarginLoss": ModuleCall((), (matrix, target, matrix + 0.3)),
        "TripletMarginWithDistanceLoss": ModuleCall((), (matrix, target, matrix + 0.3)),
        "Unflatten": ModuleCall((1, (2, 2)), (matrix,)),
        "Unfold": ModuleCall((2,), (image,)),
        "Upsample": ModuleCall((None, 2), (image,)),
        "UpsamplingBilinear2d": ModuleCall((None, 2), (image,)),
        "UpsamplingNearest2d": ModuleCall((None, 2), (image,)),
    }


PADDINGS = ("Circular", "Reflection", "Replication", "Zero")
ELEMENTWISE_LOSSES = (
    "BCELoss",
    "BCEWithLogitsLoss",
    "HuberLoss",
    "KLDivLoss",
    "L1Loss",
    "MSELoss",
    "MultiLabelSoftMarginLoss",
    "PoissonNLLLoss",
    "SmoothL1Loss",
)
CONTAINERS = frozenset({"Container", "DataParallel", "Module", "ModuleDict", "ModuleList", "ParameterDict"})
CONTAINERS |= frozenset({"ParameterList", "RNNBase", "RNNCellBase", "Sequential"})


def module_classes() -> dict[str, Any]:
    """The modules of torch.nn by name, without containers."""
    found = {name: getattr(nn, name) for name in dir(nn) if name not in CONTAINERS}
    return {name: value for name, value in found.items() if isinstance(value, type) and issubclass(value, nn.Module)}


def holds_no_parameters(module: Any) -> bool:
    """Whether no module of this class trains anything: `InstanceNorm2d` does when `affine`."""
    return "affine" not in inspect.signature(type(module)).parameters and not list(module.parameters())


def made_module(name: str) -> tuple[Any, Call] | None:
    """A module in training mode with a call for it; None where it wants arguments not known here."""
    eager = name.removeprefix("Lazy")
    known = module_calls().get(eager, ModuleCall((), (floats(3, 4),)))
    try:
        module = quiet(getattr(nn, eager), *known.constructor)
        quiet(module, *known.inputs)
    except Exception:
        return None
    return module, Call(known.inputs, {})


def module_saves(module: Any, sample: Call) -> tuple[str, ...]:
    """The saved tensors of a module: its first input, if that can require grad, and its result."""
    probe = Probe(module, [f"input{place or ''}" for place in range(len(sample.args))], sample)
    wanted = ["input"] if "input" in differentiable_inputs(probe.bound) else []
    saved = {"result" if place == "result.0" else place for place in probe.saved(wanted)}
    return tuple(place for place in ("input", "result") if place in saved)


def inplace_modules() -> list[str]:
    kinds = module_classes().items()
    return [name for name, kind in kinds if "inplace" in inspect.signature(kind.__init__).parameters]


# --- the file --------------------------------------------------------------------------------------------

HEADER = '''"""Tensors that autograd saves for PyTorch's operators, and operators that change or share their input.

Generated by `python tests/generate_operators.py --write` from torch {version}; do not edit.

Names are those people write, for methods and functions alike; `linalg.inv` stands for `torch.linalg.inv`.
A method's receiver, and what functions call `input`, is the parameter `self`; a method's other arguments
fill the remaining parameters in their order. `saves` tells for each input that can have a gradient what is
kept when it wants one: names of parameters, `result`, or `result.N` of a tuple. A number given for a tensor
is kept by no one. Forms of a name that keep other things have a key of their own, after the parameter that
tells them apart: `max.dim`, `max.other`.
"""

from __future__ import annotations

from typing import NamedTuple

TORCH_VERSION = "{version}"


class Operator(NamedTuple):
    """The parameters of an operator in call order, and what it saves for the gradient of each input."""

    parameters: tuple[str, ...]
    saves: dict[str, tuple[str, ...]]


def _op(parameters: str, /, **saves: str) -> Operator:
    return Operator(tuple(parameters.split()), {{name: tuple(kept.split()) for name, kept in saves.items()}})


def _names(names: str) -> frozenset[str]:
    return frozenset(names.split())

'''


def entry(name: str, form: Form) -> str:
    """An operator's line, broken the way the formatter breaks it."""
    order = [parameter for parameter in form.parameters if parameter in form.saves]
    parameters = textwrap.wrap(" ".join(form.parameters), LINE - 12, drop_whitespace=False)
    arguments = ["\n        ".join(f'"{part}"' for part in parameters)]
    arguments += [f'{parameter}="{" ".join(form.saves[parameter])}"' for parameter in order]
    line = f'    "{name}": _op({", ".join(arguments)}),'
    inner = f"        {', '.join(arguments)}"
    if len(line) <= LINE:
        return line
    if len(inner) > LINE:
        inner = "\n".join(f"        {argument}," for argument in arguments)
    return f'    "{name}": _op(\n{inner}\n    ),'


def wrapped(words: Iterable[str]) -> list[str]:
    return textwrap.wrap(" ".join(sorted(words)), LINE, break_long_words=False, break_on_hyphens=False)


def name_set(constant: str, comment: str, names: Iterable[str]) -> str:
    body = "\n".join(wrapped(names))
    return f'# {comment}\n{constant} = _names("""\n{body}\n""")\n'


def rendered() -> str:
    """The text of the whole file."""
    version = torch.__version__.partition("+")[0]
    natives = overloads_by_name()
    found = operators(natives)
    outcomes = view_outcomes(natives)
    made = {name: made_module(name) for name in module_classes()}
    modules = {name: value for name, value in sorted(made.items()) if value}
    saves = {name: " ".join(module_saves(*value)) for name, value in modules.items()}
    parameterless = [name for name, (module, _) in modules.items() if holds_no_parameters(module)]
    changing = filter(changes_values, inplace_names())
    return "\n".join(
        (
            HEADER.format(version=version),
            "OPERATORS: dict[str, Operator] = {",
            *(entry(name, form) for name, form in sorted(found.items())),
            "}\n",
            name_set("VIEWS", "Results that share storage with the input.", views(outcomes, {True})),
            name_set("MAYBE_VIEWS", "Results that may share it, or be a copy.", views(outcomes, {True, False})),
            name_set("INPLACE", "Methods and functions that change their input.", changing),
            name_set("NOT_DIFFERENTIABLE", "Results that never carry a graph.", not_differentiable(natives, found)),
            "# What calling a module in training mode keeps of its (first) input and its (first) result.",
            "MODULES: dict[str, tuple[str, ...]] = {",
            *(f'    "{name}": {literal(kept)},' for name, kept in saves.items()),
            "}\n",
            name_set("MODULES_WITHOUT_PARAMETERS", "Modules that hold nothing to train.", parameterless),
            name_set("INPLACE_MODULES", "Modules whose constructor takes `inplace`.", inplace_modules()).rstrip(),
            "",
        )
    )


def views(outcomes: Mapping[str, set[bool]], wanted: set[bool]) -> list[str]:
    return [name for name, seen in outcomes.items() if seen == wanted]


def literal(names: str) -> str:
    words = [f'"{name}"' for name in names.split()]
    return f"({words[0]},)" if len(words) == 1 else f"({', '.join(words)})"


def main() -> int:
    parser = argparse.ArgumentParser(description="Make the table of operators.")
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", action="store_true", help="write the table")
    action.add_argument("--check", action="store_true", help="exit 1 when the table is stale")
    options = parser.parse_args()
    text = rendered()
    if options.write:
        TABLE.write_text(text, encoding="utf-8")
        return 0
    return int(TABLE.read_text(encoding="utf-8") != text)


if __name__ == "__main__":
    sys.exit(main())
