"""Names of packages: packages that never clear a gradient, libraries, other frameworks."""

from __future__ import annotations

# Packages whose functions never clear a gradient.
HARMLESS_PACKAGES = {"higher"} | frozenset(
    (
        "numpy math random time os sys json logging re pathlib PIL cv2 matplotlib wandb tqdm argparse scipy "
        "sklearn pandas builtins copy collections itertools functools pickle torchvision tensorboardX "
        "datasets tokenizers torchmetrics torch gc warnings shutil glob csv seaborn networkx imageio skimage "
        "gym gymnasium typing contextlib string torchaudio torchtext einops mlflow visdom pprint datetime "
        "threading multiprocessing rich yaml"
    ).split()
)
# Packages that no file of a repository replaces, whatever its name: the tables here describe them.
LIBRARIES = (HARMLESS_PACKAGES - {"datasets", "higher", "string"}) | frozenset(
    (
        "accelerate apex bitsandbytes deepspeed fairscale functorch ignite jax keras lightning lightning_fabric "
        "peft pytest pytorch_lightning ray tensorflow timm torch_geometric torch_xla torchdata torchrl transformers"
    ).split()
)
OTHER_FRAMEWORKS = frozenset(
    "jax flax objax haiku paddle mxnet mindspore chainer oneflow jittor tinygrad warp warp_nn".split()
)
"""Frameworks of files that train with neither torch nor the rest of a mixed file."""
COMPILERS = tuple(f"{name}." for name in ("taichi", "numba", "triton", "warp", "cupyx", "tilelang", "cutlass", "tvm"))
"""Packages whose decorators compile functions for arrays, so that their bodies are no PyTorch code."""
