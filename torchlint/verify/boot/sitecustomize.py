"""Found first on PYTHONPATH: lets the environment's own sitecustomize run, and waits for `import torch`.

Does nothing unless `torchlint verify` started this process. Standard library only, and little of it.
"""

from __future__ import annotations

import contextlib
import os
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Callback = Callable[[ModuleType], None]

PLAN = "TORCHLINT_VERIFY"
"""The environment variable that names the folder of a verification."""

CONDITIONS = "conditions.json"
"""The file with the conditions of compared runs; missing if nothing is compared."""

_HERE = os.path.dirname(os.path.abspath(__file__))


def _chain() -> None:
    """Run the sitecustomize that this one hides, if there is one."""
    elsewhere = [entry for entry in sys.path if os.path.abspath(entry or ".") != _HERE]
    spec = PathFinder.find_spec("sitecustomize", elsewhere)
    if spec is None or spec.loader is None:
        return
    from importlib.util import module_from_spec

    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


class _AfterImport(MetaPathFinder):
    """Calls back when a module has been imported, and is out of the way otherwise."""

    def __init__(self, callbacks: Sequence[tuple[str, Callback]]) -> None:
        self._callbacks: dict[str, list[Callback]] = {}
        for name, callback in callbacks:
            self._callbacks.setdefault(name, []).append(callback)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._callbacks:
            return None
        callbacks = self._callbacks.pop(fullname)
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _CallingLoader(spec.loader, callbacks)
        return spec


class _CallingLoader(Loader):
    """A module's own loader, and calls once the module has been executed."""

    def __init__(self, loader: Loader, callbacks: list[Callback]) -> None:
        self._loader = loader
        self._callbacks = callbacks

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        for callback in self._callbacks:
            callback(module)

    def __getattr__(self, name: str) -> object:
        return getattr(self._loader, name)


def _boot(folder: str) -> None:
    """Say that this process exists, and probe it once it has imported torch."""

    def torch_imported(torch: ModuleType) -> None:
        import torchlint_probe

        try:
            torchlint_probe.install(folder)
        except Exception as error:  # never the program's problem
            _note(folder, "failed", repr(error))

    def dynamo_imported(dynamo: ModuleType) -> None:
        import torchlint_probe

        torchlint_probe.hide_from_dynamo(dynamo)

    _note(folder, "boot")
    callbacks = [("torch", torch_imported), ("torch._dynamo", dynamo_imported)]
    if os.path.exists(os.path.join(folder, CONDITIONS)):
        from torchlint_probe import conditions

        callbacks = [*conditions.meet(os.path.join(folder, CONDITIONS)), *callbacks]
    for name, callback in callbacks:
        if name in sys.modules:  # a .pth file of the environment was quicker
            callback(sys.modules[name])
    sys.meta_path.insert(0, _AfterImport([item for item in callbacks if item[0] not in sys.modules]))


def _note(folder: str, name: str, text: str = "") -> None:
    """Leave word of this process; without the folder the verification is over."""
    path = os.path.join(folder, f"{name}-{os.getpid()}")
    with contextlib.suppress(OSError), open(path, "w", encoding="utf-8", errors="replace") as file:
        file.write(text)


if os.environ.get(PLAN):
    _boot(os.environ[PLAN])
_chain()
