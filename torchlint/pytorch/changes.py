"""Removed and deprecated API of PyTorch, as data: `tests/probe_changes.py` compares it with the installed torch.

A status comes from PyTorch 2.13: from a use of the symbol, or (`DOCUMENTED`) from its documentation. `since` is the
first minor release with this behavior, from the wheels of all releases since 1.0; see docs/api-changes.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from torchlint.pytorch.losses import OLD
from torchlint.pytorch.releases import CURRENT, Release


class Status(Enum):
    """The effect of using a name."""

    MISSING = "no longer exists"
    RAISES = "raises an error"
    IGNORED = "has no effect"
    WARNS = "warns that it is deprecated"
    DOCUMENTED = "is deprecated, as its documentation says"


REMOVED = frozenset({Status.MISSING, Status.RAISES, Status.IGNORED})


@dataclass(frozen=True)
class Fix:
    """The replacement of a call; `safe` if it behaves the same."""

    to: str = ""
    """The qualified name of a function with the same arguments."""
    first: str = ""
    """An additional first argument."""
    add: str = ""
    """An additional keyword argument."""
    drop: bool = False
    """Whether to remove the keyword argument in question."""
    keywords_only: bool = False
    """Whether positional arguments would have another meaning."""
    unless: str = ""
    """A keyword that the replacement does not accept."""
    values: tuple[tuple[str, str, str], ...] = ()
    """A value of the keyword argument in question, with the argument and value to write instead."""
    safe: bool = True


@dataclass(frozen=True)
class Change:
    """A changed symbol, or a changed or missing argument."""

    name: str
    """The qualified name; `<Class>` and `<function>` stand for all those of a module, `Tensor.add_` is a method."""
    status: Status
    instead: str
    """The replacement, for readers."""
    since: Release = CURRENT
    instead_since: Release = (1, 0)
    """The first known release that has the replacement."""
    keyword: str = ""
    """Applies to calls that pass this argument by name."""
    lacks: str = ""
    """Applies to calls that do not pass this argument."""
    position: int = -1
    """The position of the missing argument among the positional ones."""
    fix: Fix | None = None
    package: str = ""
    """The version of another package released together with `since`."""
    until: Release = CURRENT
    """The last release with this behavior: the next one has another change."""

    @property
    def release(self) -> str:
        """The release of the change, for readers."""
        return self.package or f"PyTorch {'.'.join(map(str, self.since))}"

    @property
    def last_name(self) -> str:
        return self.name.rpartition(".")[2]


def _rename(to: str, *, safe: bool = True, unless: str = "") -> Fix:
    return Fix(to=to, safe=safe, unless=unless)


_MISSING, _RAISES, _IGNORED, _WARNS, _DOCUMENTED = Status


def _renamed(module: str, names: str, instead: str, since: Release, instead_since: Release) -> tuple[Change, ...]:
    """Functions with the same behavior under another name; `{}` is the old one."""
    return tuple(
        Change(f"{module}.{name}", _WARNS, to, since, instead_since, fix=_rename(to))
        for name in names.split()
        for to in [instead.format(name)]
    )


_OLD_FFT = (1, 8)

REMOVALS = (
    # -- linear algebra: the functions are there, and raise ------------------------------------------------
    Change("torch.symeig", _RAISES, "torch.linalg.eigh (the default of symeig was UPLO='U')", (2, 0), (1, 8)),
    Change("torch.eig", _RAISES, "torch.linalg.eig", (1, 13), (1, 9)),
    Change("torch.solve", _RAISES, "torch.linalg.solve, with its arguments the other way round", (1, 12), (1, 8)),
    Change("torch.lstsq", _RAISES, "torch.linalg.lstsq, with its arguments the other way round", (1, 13), (1, 9)),
    Change("torch.matrix_rank", _RAISES, "torch.linalg.matrix_rank", (1, 13), (1, 8),
           fix=_rename("torch.linalg.matrix_rank", safe=False, unless="symmetric")),
    # -- what is gone -------------------------------------------------------------------------------------
    *(Change(f"torch.{name}", _MISSING, f"torch.fft.{name}, whose results are complex", _OLD_FFT, (1, 7))
      for name in ("rfft", "irfft", "ifft")),
    Change("torch.gels", _MISSING, "torch.linalg.lstsq", (1, 3), (1, 9)),
    Change("torch.potrf", _MISSING, "torch.linalg.cholesky", (1, 2), (1, 8)),
    Change("torch.btrifact", _MISSING, "torch.linalg.lu_factor", (1, 2), (1, 11)),
    Change("torch._six", _MISSING, "`math.inf`, and Python's own types and modules", (2, 0)),
    Change("torch.testing.rand", _MISSING, "torch.rand", (2, 0), fix=_rename("torch.rand")),
    Change("torch.testing.randn", _MISSING, "torch.randn", (2, 0), fix=_rename("torch.randn")),
    # -- calls and arguments ------------------------------------------------------------------------------
    Change("torch.fft", _RAISES, "torch.fft.fft, whose results are complex", _OLD_FFT, (1, 7)),
    Change("torch.optim.lr_scheduler.<Class>", _RAISES, "print(scheduler.get_last_lr())", (2, 7), (1, 4),
           keyword="verbose", fix=Fix(drop=True)),
    Change("torch.autograd.Variable", _IGNORED, "with torch.no_grad():", (0, 4), keyword="volatile"),
    Change("torch.stft", _RAISES, "return_complex=True", (2, 0), (1, 7), lacks="return_complex", position=9),
    Change("Tensor.stft", _RAISES, "return_complex=True", (2, 0), (1, 7), lacks="return_complex", position=8),
    Change("Tensor.data[0]", _RAISES, "item()", (1, 0)),
    Change("Tensor.masked_fill", _RAISES, "a mask of booleans", (2, 1), (1, 2)),
    Change("Tensor.masked_fill_", _RAISES, "a mask of booleans", (2, 1), (1, 2)),
    Change("Tensor.masked_select", _RAISES, "a mask of booleans", (2, 1), (1, 2)),
    Change("Tensor.__setitem__", _RAISES, "a mask of booleans", (2, 1), (1, 2)),
)  # fmt: skip
"""API that raises, or has no effect."""

_MODELS = "torchvision.models"
_MODULES_OF_CLASSIFIERS = tuple(
    f".{name}" for name in "alexnet convnext densenet efficientnet googlenet inception mnasnet mobilenet mobilenetv2 "
    "mobilenetv3 regnet resnet shufflenetv2 squeezenet swin_transformer vgg vision_transformer".split()
)  # fmt: skip
_PRETRAINED = (("False", "weights", "None"), ("True", "weights", '"IMAGENET1K_V1"'))


def _of_models(module: str, keyword: str, instead: str, *values: tuple[str, str, str]) -> Change:
    """A changed argument of the functions that build torchvision's models."""
    return Change(f"{_MODELS}{module}.<function>", _WARNS, f"`{instead}=` with the name of the weights, or None",
                  (1, 12), (1, 12), keyword=keyword, fix=Fix(values=values), package="torchvision 0.13")  # fmt: skip


_F = "torch.nn.functional"
_INDEXED = Fix(add='indexing="ij"')
DEPRECATIONS = (
    # -- linear algebra -----------------------------------------------------------------------------------
    Change("torch.cholesky", _WARNS, "torch.linalg.cholesky", (1, 9), (1, 8),
           fix=_rename("torch.linalg.cholesky", unless="upper")),
    Change("torch.qr", _WARNS, "torch.linalg.qr", (1, 9), (1, 8), fix=_rename("torch.linalg.qr", unless="some")),
    Change("torch.lu", _WARNS, "torch.linalg.lu_factor", (1, 13), (1, 11)),
    Change("torch.triangular_solve", _WARNS, "torch.linalg.solve_triangular, with its arguments the other way round",
           (1, 11), (1, 11)),
    Change("torch.chain_matmul", _WARNS, "torch.linalg.multi_dot, of a list", (1, 9), (1, 9)),
    Change("torch.range", _WARNS, "torch.arange, which leaves out its end", (1, 0)),
    Change("torch.meshgrid", _WARNS, 'indexing="ij"', (1, 10), (1, 10), lacks="indexing", fix=_INDEXED),
    Change("torch.cross", _WARNS, "torch.linalg.cross, or dim=...", (2, 2), (1, 11), lacks="dim", position=2),
    # -- torch.nn -----------------------------------------------------------------------------------------
    Change(f"{_F}.upsample", _WARNS, f"{_F}.interpolate", (1, 0), fix=_rename(f"{_F}.interpolate")),
    Change(f"{_F}.upsample_nearest", _WARNS, f'{_F}.interpolate(..., mode="nearest")', (1, 0),
           fix=Fix(f"{_F}.interpolate", add='mode="nearest"')),
    Change(f"{_F}.upsample_bilinear", _WARNS, f'{_F}.interpolate(..., mode="bilinear", align_corners=True)', (1, 0),
           fix=Fix(f"{_F}.interpolate", add='mode="bilinear", align_corners=True')),
    Change(f"{_F}.grid_sample", _WARNS, "align_corners=False", (1, 3), (1, 3), lacks="align_corners", position=4,
           fix=Fix(add="align_corners=False")),
    Change(f"{_F}.affine_grid", _WARNS, "align_corners=False", (1, 3), (1, 3), lacks="align_corners", position=2,
           fix=Fix(add="align_corners=False")),
    Change(f"{_F}.gumbel_softmax", _WARNS, "nothing in its place", (1, 1), keyword="eps", fix=Fix(drop=True)),
    *(Change(f"{module}.{name}", _WARNS, 'reduction="mean", "sum" or "none"', (1, 0), keyword=keyword)
      for module, names in (("torch.nn", OLD), (_F, OLD.values()))
      for name in names for keyword in ("size_average", "reduce")),
    Change("torch.nn.utils.clip_grad_norm", _WARNS, "torch.nn.utils.clip_grad_norm_", (1, 0),
           fix=_rename("torch.nn.utils.clip_grad_norm_")),
    *_renamed("torch.nn.init", "uniform normal constant eye dirac xavier_uniform xavier_normal kaiming_uniform "
              "kaiming_normal orthogonal sparse", "torch.nn.init.{}_", (1, 0), (1, 0)),
    Change("torch.nn.utils.stateless.functional_call", _WARNS, "torch.func.functional_call", (2, 0), (2, 0),
           fix=_rename("torch.func.functional_call")),
    Change("torch.nn.NLLLoss2d", _WARNS, "torch.nn.NLLLoss", (1, 0), fix=_rename("torch.nn.NLLLoss")),
    Change("torch.nn.Container", _WARNS, "torch.nn.Module", (1, 0)),
    Change("torch.nn.parallel.DistributedDataParallelCPU", _WARNS, "torch.nn.parallel.DistributedDataParallel",
           (1, 2), fix=_rename("torch.nn.parallel.DistributedDataParallel")),
    # -- mixed precision ----------------------------------------------------------------------------------
    *(Change(f"torch.{device}.amp.{name}", _WARNS, f'torch.amp.{name}("{device}", ...)', (2, 4), since,
             fix=Fix(f"torch.amp.{name}", first=f'"{device}"', keywords_only=name == "autocast"))
      for device in ("cuda", "cpu") for name, since in (("autocast", (1, 12)), ("GradScaler", (2, 3)))),
    *(Change(f"torch.cuda.amp.{name}", _WARNS, f'torch.amp.{name}(..., device_type="cuda")', (2, 4), (2, 4))
      for name in ("custom_fwd", "custom_bwd")),
    *(Change(f"torch.{old}", _WARNS, f'torch.{new}("{device}")', (2, 4), (2, 4),
             fix=Fix(f"torch.{new}", first=f'"{device}"'))
      for old, new, device in (("get_autocast_gpu_dtype", "get_autocast_dtype", "cuda"),
                               ("set_autocast_gpu_dtype", "set_autocast_dtype", "cuda"),
                               ("is_autocast_cpu_enabled", "is_autocast_enabled", "cpu"))),
    # -- devices and distribution -------------------------------------------------------------------------
    *_renamed("torch.cuda", "memory_cached", "torch.cuda.memory_reserved", (1, 4), (1, 4)),
    *_renamed("torch.cuda", "max_memory_cached", "torch.cuda.max_memory_reserved", (1, 4), (1, 4)),
    Change("torch.set_default_tensor_type", _WARNS, "torch.set_default_dtype and torch.set_default_device", (2, 1),
           (2, 0)),
    Change("torch.backends.cuda.sdp_kernel", _WARNS, "torch.nn.attention.sdpa_kernel", (2, 3), (2, 3)),
    Change("torch.distributed.all_gather_into_tensor", _WARNS, "torch.distributed.all_gather_single", CURRENT,
           CURRENT),
    Change("torch.distributed.reduce_scatter_tensor", _WARNS, "torch.distributed.reduce_scatter_single", CURRENT,
           CURRENT),
    Change("torch.distributed._all_gather_base", _WARNS, "torch.distributed.all_gather_single", (1, 13), CURRENT),
    Change("torch.distributed._reduce_scatter_base", _WARNS, "torch.distributed.reduce_scatter_single", (1, 13),
           CURRENT),
    Change("torch.distributed.checkpoint.save_state_dict", _WARNS, "torch.distributed.checkpoint.save", (2, 2),
           (2, 2)),
    Change("torch.distributed.checkpoint.load_state_dict", _WARNS, "torch.distributed.checkpoint.load", (2, 2),
           (2, 2)),
    # -- tools --------------------------------------------------------------------------------------------
    Change("torch.testing.assert_allclose", _WARNS, "torch.testing.assert_close, whose tolerances differ", (1, 12),
           (1, 12)),
    Change("functorch.vmap", _WARNS, "torch.vmap", (2, 0), (2, 0), fix=_rename("torch.vmap")),
    *_renamed("functorch", "grad jacrev jacfwd vjp jvp hessian grad_and_value functionalize", "torch.func.{}", (2, 0),
              (2, 0)),
    Change("torch._utils.is_compiling", _WARNS, "torch.compiler.is_compiling", (2, 6), (2, 3),
           fix=_rename("torch.compiler.is_compiling")),
    Change("torch.library.impl_abstract", _WARNS, "torch.library.register_fake", (2, 4), (2, 4),
           fix=_rename("torch.library.register_fake")),
    Change("torch.utils._pytree._register_pytree_node", _WARNS, "torch.utils._pytree.register_pytree_node", (2, 2),
           (2, 2), fix=_rename("torch.utils._pytree.register_pytree_node")),
    Change("torch.profiler.profile", _WARNS, "activities=...", (1, 8), (1, 8), keyword="use_cuda"),
    *(Change(f"torch.ao.quantization.{name}", _WARNS, "torchao", (2, 8))
      for name in ("quantize_dynamic", "quantize", "quantize_qat", "prepare", "prepare_qat", "convert")),
    Change("torch.optim.lr_scheduler.<Class>", _WARNS, "print(scheduler.get_last_lr())", (2, 2), (1, 4),
           until=(2, 6), keyword="verbose", fix=Fix(drop=True, safe=False)),
    # -- methods ------------------------------------------------------------------------------------------
    Change("Tensor.__getitem__", _WARNS, "a mask of booleans", (1, 2), (1, 2)),
    Change("Tensor.__setitem__", _WARNS, "a mask of booleans", (1, 2), (1, 2), until=(2, 0)),
    Change("Tensor.add_", _WARNS, "add_(tensor, alpha=number)", (1, 5)),
    Change("Tensor.addcmul_", _WARNS, "addcmul_(tensor, tensor, value=number)", (1, 5)),
    Change("Tensor.addcdiv_", _WARNS, "addcdiv_(tensor, tensor, value=number)", (1, 5)),
    Change("LRScheduler.step", _WARNS, "step()", (1, 4), keyword="epoch"),
    Change("LRScheduler.get_lr", _WARNS, "get_last_lr()", (1, 4), (1, 4)),
    # -- torchvision --------------------------------------------------------------------------------------
    *(_of_models(module, "pretrained", "weights", *_PRETRAINED) for module in ("", *_MODULES_OF_CLASSIFIERS)),
    *(_of_models(module, "pretrained", "weights", _PRETRAINED[0])
      for module in (".detection", ".segmentation", ".video", ".optical_flow", ".quantization")),
    *(_of_models(module, "pretrained_backbone", "weights_backbone", ("False", "weights_backbone", "None"))
      for module in (".detection", ".segmentation")),
    Change("torchvision.transforms.v2.ToTensor", _WARNS,
           "`v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])`", (2, 1), (2, 1),
           package="torchvision 0.16"),
    # -- what only the documentation calls deprecated, or nobody can do without -----------------------------
    Change("torch.svd", _DOCUMENTED, "torch.linalg.svd, which returns Vh", (1, 8), (1, 8)),
    Change("torch.lu_solve", _DOCUMENTED, "torch.linalg.lu_solve, with its arguments the other way round", (1, 13),
           (1, 13)),
    Change("torch.norm", _DOCUMENTED, "torch.linalg.vector_norm or matrix_norm", (1, 7), (1, 9)),
    Change("torch.autograd.profiler_legacy.profile", _DOCUMENTED, "torch.profiler.profile", (1, 10), (1, 8)),
    Change("torch.jit.script", _DOCUMENTED, "torch.compile or torch.export", (2, 10), (2, 1)),
    Change("torch.jit.trace", _DOCUMENTED, "torch.compile or torch.export", (2, 10), (2, 1)),
)  # fmt: skip
"""API that still works."""
