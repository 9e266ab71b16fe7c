"""The table of operators: that it is up to date, that it says what is known, and that PyTorch behaves so."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from torchlint.pytorch import autograd_table
from torchlint.pytorch.autograd_table import OPERATORS

GENERATOR = Path(__file__).with_name("generate_operators.py")


def installed_torch() -> str:
    """The version of the installed torch, empty without one."""
    try:
        return importlib.metadata.version("torch").partition("+")[0]
    except importlib.metadata.PackageNotFoundError:
        return ""


_is_another_torch = installed_torch() not in ("", autograd_table.TORCH_VERSION)


def needs_torch(test: Callable[..., None]) -> Callable[..., None]:
    reason = f"another torch than {autograd_table.TORCH_VERSION}"
    marked: Callable[..., None] = pytest.mark.skipif(_is_another_torch, reason=reason)(test)
    for mark in (pytest.mark.slow, pytest.mark.needs("torch", "yaml")):
        marked = mark(marked)
    return marked


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_operators", GENERATOR)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


# --- without torch ---------------------------------------------------------------------------------------

KNOWN: list[tuple[str, str, set[str]]] = [
    # Operators that keep their result.
    ("exp", "self", {"result"}),
    ("sigmoid", "self", {"result"}),
    ("tanh", "self", {"result"}),
    ("softmax", "self", {"result"}),
    ("log_softmax", "self", {"result"}),
    ("relu", "self", {"result"}),
    ("sqrt", "self", {"result"}),
    ("rsqrt", "self", {"result"}),
    ("reciprocal", "self", {"result"}),
    # Operators that keep an input.
    ("log", "self", {"self"}),
    ("sin", "self", {"self"}),
    ("silu", "self", {"self"}),
    ("gelu", "self", {"self"}),
    ("square", "self", {"self"}),
    ("leaky_relu", "self", {"self"}),
    ("max_pool2d", "self", {"self"}),
    ("mse_loss", "self", {"self", "target"}),
    ("where", "self", {"condition"}),
    ("gather", "self", {"self", "index"}),
    ("index_select", "self", {"index"}),
    ("masked_fill", "self", {"mask"}),
    # Products keep the other factor: nothing of `x` in `x * 2.0` and `x / 2`.
    ("mul", "self", {"other"}),
    ("mul", "other", {"self"}),
    ("div", "self", {"other"}),
    ("div", "other", {"self", "other"}),
    ("matmul", "self", {"other"}),
    ("matmul", "other", {"self"}),
    ("linear", "self", {"weight"}),
    ("linear", "weight", {"self"}),
    ("linear", "bias", set()),
    ("conv2d", "self", {"self", "weight"}),
    ("pow", "self", {"self", "exponent"}),
    ("pow", "exponent", {"self", "exponent", "result"}),
    ("einsum", "tensors", {"tensors"}),
    # Operators that keep nothing.
    ("add", "self", set()),
    ("add", "other", set()),
    ("sub", "other", set()),
    ("neg", "self", set()),
    ("sum", "self", set()),
    ("mean", "self", set()),
    ("cat", "tensors", set()),
    ("stack", "tensors", set()),
    ("clone", "self", set()),
    ("reshape", "self", set()),
    # Forms of one name that keep other things.
    ("max", "self", {"self", "result"}),
    ("max.dim", "self", {"result.1"}),
    ("max.other", "self", {"self", "other"}),
]


@pytest.mark.parametrize(("name", "wanted", "saved"), KNOWN)
def test_known(name: str, wanted: str, saved: set[str]) -> None:
    assert set(OPERATORS[name].saves[wanted]) == saved


def test_parameters() -> None:
    assert OPERATORS["mul"].parameters == ("self", "other")
    assert OPERATORS["relu"].parameters == ("self", "inplace")
    assert OPERATORS["conv2d"].parameters[:3] == ("self", "weight", "bias")
    assert OPERATORS["where"].parameters == ("condition", "self", "other")


def test_saved_places_exist() -> None:
    """Every place is a parameter or a part of the result, every key a parameter."""
    for name, operator in OPERATORS.items():
        assert operator.saves.keys() <= set(operator.parameters), name
        for places in operator.saves.values():
            named = {place for place in places if place.partition(".")[0] != "result"}
            assert named <= set(operator.parameters), name


def test_every_common_operator_is_known() -> None:
    composite = """bilinear normalize cosine_similarity softmin elu relu6 hardtanh std var norm clamp dropout
    scaled_dot_product_attention binary_cross_entropy binary_cross_entropy_with_logits smooth_l1_loss nll_loss
    huber_loss kl_div interpolate avg_pool2d adaptive_avg_pool2d pad embedding addmm bmm baddbmm outer dot
    batch_norm layer_norm group_norm instance_norm cross_entropy conv1d conv3d true_divide rsub"""
    assert words(composite) <= OPERATORS.keys()


def test_views() -> None:
    views = "view transpose permute t squeeze unsqueeze expand narrow select split chunk unbind detach diagonal"
    assert words(views) <= autograd_table.VIEWS
    maybe = "reshape flatten contiguous to float unfold cpu cuda type_as"
    assert words(maybe) <= autograd_table.MAYBE_VIEWS
    assert not autograd_table.VIEWS & autograd_table.MAYBE_VIEWS
    assert not {"clone", "add", "repeat"} & (autograd_table.VIEWS | autograd_table.MAYBE_VIEWS)


def test_inplace() -> None:
    assert {"add_", "mul_", "relu_", "zero_", "copy_", "clamp_", "elu_", "masked_fill_"} <= autograd_table.INPLACE
    assert not {"requires_grad_", "detach_", "share_memory_", "retain_grad"} & autograd_table.INPLACE


def test_not_differentiable() -> None:
    tensors = "argmax argmin eq ne lt ge long int bool isnan multinomial bincount ones_like zeros_like detach"
    assert words(tensors) <= autograd_table.NOT_DIFFERENTIABLE
    # Their gradient is zero, but there is one.
    assert not {"sign", "floor", "round", "ceil"} & autograd_table.NOT_DIFFERENTIABLE
    assert not autograd_table.NOT_DIFFERENTIABLE & OPERATORS.keys() - {"detach"}


def test_modules() -> None:
    assert autograd_table.MODULES["ReLU"] == ("result",)
    assert autograd_table.MODULES["Linear"] == autograd_table.MODULES["LazyLinear"] == ("input",)
    assert (
        autograd_table.MODULES["Dropout"]
        == autograd_table.MODULES["Flatten"]
        == autograd_table.MODULES["Identity"]
        == ()
    )
    assert {"ReLU", "Dropout", "MSELoss"} <= autograd_table.MODULES_WITHOUT_PARAMETERS
    assert not {"Linear", "PReLU", "BatchNorm2d", "InstanceNorm2d"} & autograd_table.MODULES_WITHOUT_PARAMETERS
    assert {"ReLU", "SiLU", "Dropout"} <= autograd_table.INPLACE_MODULES
    assert not {"GELU", "Sigmoid", "Tanh"} & autograd_table.INPLACE_MODULES


# --- with torch ------------------------------------------------------------------------------------------

UNARY = words("""
abs acos asin atan cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 frac lgamma log log10 log1p
log2 logit neg reciprocal rsqrt sigmoid sign sin sinc sinh sqrt square tan tanh trunc floor ceil round
gelu silu relu elu selu celu mish softplus softsign tanhshrink hardswish hardsigmoid hardtanh relu6
leaky_relu logsigmoid cumsum prod sum mean std var norm amax amin logsumexp softmax log_softmax softmin
cumprod triu tril
""")
BINARY = words("""
add sub mul div maximum minimum fmax fmin atan2 hypot mm matmul inner kron logaddexp xlogy dist mse_loss
l1_loss smooth_l1_loss huber_loss binary_cross_entropy_with_logits
""")
DIMENSION = words("cumsum logsumexp softmax log_softmax softmin cumprod")


def sample_of(generator: ModuleType, name: str) -> Any:
    """A call of a common operator, made here and not by the generator."""
    first, second = generator.floats(3, 3), generator.floats(3, 3) + 0.05
    if name in BINARY:
        return generator.call(first, second)
    extra = [1] if name in DIMENSION else []
    return generator.call(first, *extra)


def written_forms(generator: ModuleType, name: str) -> Iterable[Any]:
    """All functions and methods of a name: each must save what the table says."""
    return [form for home, form in generator.homes(name).items() if home in ("Tensor", "torch", "F")]


@needs_torch
@pytest.mark.parametrize("name", sorted(UNARY | BINARY))
def test_probe(generator: ModuleType, name: str) -> None:
    """Changing what is saved, and nothing else, makes backward fail, whichever input wants a gradient."""
    operator = OPERATORS[name]
    sample = sample_of(generator, name)
    tensors = operator.parameters[:2] if name in BINARY else operator.parameters[:1]
    for function in written_forms(generator, name):
        probe = generator.Probe(function, operator.parameters, sample)
        expected = {wanted: set(operator.saves[wanted]) & {*tensors, "result"} for wanted in tensors}
        found = {wanted: set(places) for wanted, places in probe.saves().items()}
        assert found == expected
        assert set(probe.saved(tensors)) == set().union(*expected.values())


@needs_torch
@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("mul", 2.0),
        ("div", 2.0),
        ("add", 2.0),
        ("sub", 2.0),
        ("pow", 2),
        ("pow", 2.5),
        ("fmod", 0.3),
        ("clamp", 0.2),
    ],
)
def test_numbers(generator: ModuleType, name: str, number: float) -> None:
    """With a number for the other argument, what is saved is what the table claims of tensors."""
    operator = OPERATORS[name]
    probe = generator.Probe(
        getattr(generator.torch, name), operator.parameters, generator.call(generator.floats(3), number)
    )
    assert set(probe.saved(["self"])) == set(operator.saves["self"]) & {"self", "result"}


@needs_torch
def test_samples(generator: ModuleType) -> None:
    """The calls of composite operators save what the table says, of the tensors they give."""
    for name, samples in generator.SAMPLES.items():
        for form in generator.sampled_forms(name, OPERATORS[name].parameters):
            for wanted, places in form.saves.items():
                claimed = OPERATORS[name].saves[wanted]
                given = {place for place in claimed if place in form.given or place.startswith("result")}
                assert given <= set(places), name
                assert len(samples) > 1 or given == set(places), name


@needs_torch
def test_up_to_date(generator: ModuleType) -> None:
    assert generator.TABLE.read_text(encoding="utf-8") == generator.rendered(), (
        "run `python tests/generate_operators.py --write`"
    )
