"""Uses all that `torchlint/pytorch/changes.py` calls removed or deprecated, with the installed torch.

    python tests/probe_changes.py    # print what differs; exit 1 if anything does

Entries of other packages are left out where those are not installed, and those that end before this release. Each entry
has a line of code that uses it. What that line does is its status: the symbol is missing, the line raises, warns, or
does nothing.
"""

from __future__ import annotations

import importlib.util
import sys
import warnings
from collections.abc import Iterator
from typing import Any

from torchlint.pytorch.changes import DEPRECATIONS, REMOVALS, Change, Status
from torchlint.pytorch.releases import CURRENT

_SETTING = """
import torch, torch.nn as nn, torch.nn.functional as F
torch.set_warn_always(True)
import torch._utils, torch.distributed, torch.nn.parallel, torch.nn.utils.stateless, torch.utils._pytree
x = torch.eye(3)
image = torch.zeros(1, 1, 4, 4)
weight = nn.Parameter(torch.ones(3, 3))
weight.grad = torch.ones(3, 3)
optimizer = torch.optim.SGD([weight], lr=0.1)
bytes_ = torch.ones(3, 3, dtype=torch.uint8)
def scheduler(**options):
    return torch.optim.lr_scheduler.StepLR(optimizer, 1, **options)
"""

USES = {
    "torch.symeig": "torch.symeig(x)",
    "torch.eig": "torch.eig(x)",
    "torch.solve": "torch.solve(x, x)",
    "torch.lstsq": "torch.lstsq(x, x)",
    "torch.matrix_rank": "torch.matrix_rank(x)",
    "torch._six": "import torch._six",
    "torch.fft": "torch.fft(x, 1)",
    "torch.optim.lr_scheduler.<Class>": "scheduler(verbose=True)",
    "torch.autograd.Variable": "assert torch.autograd.Variable(x, volatile=True).requires_grad is False",
    "torch.stft": "torch.stft(torch.zeros(64), 16)",
    "Tensor.stft": "torch.zeros(64).stft(16)",
    "Tensor.data[0]": "x.mean().data[0]",
    "Tensor.masked_fill": "x.masked_fill(bytes_, 0)",
    "Tensor.masked_fill_": "x.masked_fill_(bytes_, 0)",
    "Tensor.masked_select": "x.masked_select(bytes_)",
    "Tensor.__getitem__": "x[bytes_]",
    "Tensor.__setitem__": "x[bytes_] = 0",
    "torch.triangular_solve": "torch.triangular_solve(x, x)",
    "torch.chain_matmul": "torch.chain_matmul(x, x)",
    "torch.range": "torch.range(0, 3)",
    "torch.meshgrid": "torch.meshgrid(x[0], x[0])",
    "torch.cross": "torch.cross(x, x)",
    "torch.lu_solve": "torch.lu_solve(x, *torch.linalg.lu_factor(x))",
    "torch.nn.functional.grid_sample": "F.grid_sample(image, torch.zeros(1, 4, 4, 2))",
    "torch.nn.functional.affine_grid": "F.affine_grid(torch.zeros(1, 2, 3), [1, 1, 4, 4])",
    "torch.nn.functional.gumbel_softmax": "F.gumbel_softmax(x, eps=1e-9, dim=-1)",
    "torch.nn.utils.clip_grad_norm": "nn.utils.clip_grad_norm([weight], 1.0)",
    "torch.nn.init.uniform": "nn.init.uniform(weight)",
    "torch.nn.init.constant": "nn.init.constant(weight, 0)",
    "torch.nn.init.dirac": "nn.init.dirac(torch.zeros(3, 3, 3))",
    "torch.nn.init.sparse": "nn.init.sparse(weight, 0.1)",
    "torch.nn.utils.stateless.functional_call": "torch.nn.utils.stateless.functional_call(nn.Linear(3, 3), {}, (x,))",
    "torch.nn.NLLLoss2d": "nn.NLLLoss2d()",
    "torch.nn.Container": "nn.Container()",
    "torch.nn.parallel.DistributedDataParallelCPU": "torch.nn.parallel.DistributedDataParallelCPU(nn.Linear(2, 2))",
    "torch.cuda.amp.custom_fwd": "torch.cuda.amp.custom_fwd(lambda ctx: 0)",
    "torch.cuda.amp.custom_bwd": "torch.cuda.amp.custom_bwd(lambda ctx: 0)",
    "torch.set_autocast_gpu_dtype": "torch.set_autocast_gpu_dtype(torch.float16)",
    "torch.set_default_tensor_type": "torch.set_default_tensor_type(torch.FloatTensor)",
    "torch.distributed.all_gather_into_tensor": "torch.distributed.all_gather_into_tensor(x, x)",
    "torch.distributed.reduce_scatter_tensor": "torch.distributed.reduce_scatter_tensor(x, x)",
    "torch.distributed._all_gather_base": "torch.distributed._all_gather_base(x, x)",
    "torch.distributed._reduce_scatter_base": "torch.distributed._reduce_scatter_base(x, x)",
    "torch.distributed.checkpoint.save_state_dict": "from torch.distributed.checkpoint import save_state_dict as f; "
    "f({}, None, no_dist=True)",
    "torch.distributed.checkpoint.load_state_dict": "from torch.distributed.checkpoint import load_state_dict as f; "
    "f({}, None, no_dist=True)",
    "torch.testing.assert_allclose": "torch.testing.assert_allclose(x, x)",
    "functorch.vmap": "import functorch; functorch.vmap(lambda x: x)(x)",
    "functorch.jvp": "import functorch; functorch.jvp(torch.sin, (x,), (x,))",
    "functorch.vjp": "import functorch; functorch.vjp(torch.sin, x)",
    "torch.library.impl_abstract": "torch.library.impl_abstract('aten::nothing_of_this_name')",
    "torch.utils._pytree._register_pytree_node": "torch.utils._pytree._register_pytree_node("
    "type('Own', (), {}), lambda x: ([], None), lambda x, y: x)",
    "torch.profiler.profile": "torch.profiler.profile(use_cuda=False)",
    "torch.ao.quantization.quantize_dynamic": "import torch.ao.quantization as q; q.quantize_dynamic(nn.ReLU(), set())",
    "torch.ao.quantization.quantize": "import torch.ao.quantization as q; q.quantize(nn.ReLU(), len, [[]])",
    "torch.ao.quantization.prepare": "import torch.ao.quantization as q; q.prepare(nn.ReLU())",
    "torch.ao.quantization.prepare_qat": "import torch.ao.quantization as q; q.prepare_qat(nn.ReLU())",
    "torch.ao.quantization.quantize_qat": "import torch.ao.quantization as q; q.quantize_qat(nn.ReLU(), len, [[]])",
    "torch.ao.quantization.convert": "import torch.ao.quantization as q; q.convert(nn.ReLU())",
    "Tensor.add_": "x.add_(0.5, x)",
    "Tensor.addcmul_": "x.addcmul_(0.5, x, x)",
    "Tensor.addcdiv_": "x.addcdiv_(0.5, x, x)",
    "LRScheduler.step": "optimizer.step(); scheduler().step(3)",
    "LRScheduler.get_lr": "scheduler().get_lr()",
    "torchvision.transforms.v2.ToTensor": "from torchvision.transforms import v2; v2.ToTensor()",
    "torch.nn.functional.upsample": "F.upsample(image, scale_factor=2)",
    "torch.nn.functional.upsample_nearest": "F.upsample_nearest(image, scale_factor=2)",
    "torch.nn.functional.upsample_bilinear": "F.upsample_bilinear(image, scale_factor=2)",
}
_MODELS = {
    "": "alexnet",
    ".alexnet": "alexnet",
    ".convnext": "convnext_tiny",
    ".densenet": "densenet121",
    ".efficientnet": "efficientnet_b0",
    ".googlenet": "googlenet",
    ".inception": "inception_v3",
    ".mnasnet": "mnasnet0_5",
    ".mobilenet": "mobilenet_v2",
    ".mobilenetv2": "mobilenet_v2",
    ".mobilenetv3": "mobilenet_v3_small",
    ".regnet": "regnet_y_400mf",
    ".resnet": "resnet18",
    ".shufflenetv2": "shufflenet_v2_x0_5",
    ".squeezenet": "squeezenet1_0",
    ".swin_transformer": "swin_t",
    ".vgg": "vgg11",
    ".vision_transformer": "vit_b_16",
    ".detection": "ssdlite320_mobilenet_v3_large",
    ".segmentation": "lraspp_mobilenet_v3_large",
    ".video": "r3d_18",
    ".optical_flow": "raft_small",
    ".quantization": "shufflenet_v2_x0_5",
}
_CALLED_ALONE = ("amp", "memory_cached", "sdp_kernel", "get_autocast", "is_autocast", "is_compiling")
_OF_THE_PAST = ("deprecat", "removed", "renamed", "upcoming", "instead", "default grid_sample", "get_last_lr")
_OF_THREE = ("cosine_embedding_loss", "margin_ranking_loss", "triplet_margin_loss")
_OF_A_FUNCTION = ("functorch.",)


def use_of(change: Change) -> str:
    """A line of code that uses something, and does not write what is asked for instead."""
    if change.name in USES:
        return USES[change.name]
    if change.name.startswith("torchvision.models"):
        return _model(change)
    if change.keyword in ("size_average", "reduce"):
        called = f"{change.name}({change.keyword}=True)"
        return called if change.name.startswith("torch.nn.") and change.last_name[0].isupper() else _loss(change)
    if change.status is Status.MISSING:
        return change.name
    if any(part in change.name for part in _CALLED_ALONE):
        return f"{change.name}()"
    if change.name.startswith(_OF_A_FUNCTION):
        return f"import functorch; {change.name}(torch.sin)"
    return f"{change.name}({'weight' if '.init.' in change.name else 'x'})"


def _model(change: Change) -> str:
    """A model without weights, which would be downloaded, also of its backbone."""
    module = change.name.removeprefix("torchvision.models").removesuffix(".<function>")
    has_backbone = change.keyword == "pretrained" and module in (".detection", ".segmentation")
    backbone = ", weights_backbone=None" if has_backbone else ""
    return f"import torchvision; torchvision.models{module}.{_MODELS[module]}({change.keyword}=False{backbone})"


def _loss(change: Change) -> str:
    """A loss as a function; what it is given need not make sense, since the warning comes first."""
    inputs = 3 if change.last_name in _OF_THREE else 2
    return f"{change.name}({', '.join('x' * inputs)}, {change.keyword}=True)"


def seen(change: Change) -> Status | None:
    """The result of a use with the installed torch; None if any result is acceptable."""
    setting: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(_SETTING, setting)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        error = _error_of(use_of(change), setting)
    torch: Any = importlib.import_module("torch")
    torch.set_autocast_dtype("cuda", torch.float16)
    if isinstance(error, (AttributeError, ImportError)) and change.status is Status.MISSING:
        return Status.MISSING
    texts = [str(warning.message).lower() for warning in caught]
    if any("no effect" in text and "deprecat" not in text for text in texts):
        return Status.IGNORED
    if any(word in text for text in texts for word in _OF_THE_PAST):
        return Status.WARNS
    return Status.RAISES if error is not None else None


def _error_of(code: str, setting: dict[str, Any]) -> Exception | None:
    try:
        exec(code, setting)
    except Exception as error:
        return error
    return None


def differences() -> Iterator[str]:
    """The differences between the table and the installed torch."""
    for change in (*REMOVALS, *DEPRECATIONS):
        if change.until < CURRENT or not _is_installed(change):
            continue
        status = seen(change)
        if change.status is not Status.DOCUMENTED and status is not change.status:
            yield f"{change.name} {change.keyword}: {use_of(change)} is {status}, not {change.status}"


def _is_installed(change: Change) -> bool:
    return not change.package or importlib.util.find_spec(change.name.partition(".")[0]) is not None


if __name__ == "__main__":
    found = list(differences())
    print("\n".join(found) or "nothing differs")
    sys.exit(bool(found))
