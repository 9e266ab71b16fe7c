"""The probe: watches a training program from inside. Standard library and torch only."""

from __future__ import annotations

from types import ModuleType

_probes: list[object] = []


def install(folder: str) -> None:
    """Start to observe this process, which has just imported torch, according to the plan in `folder`."""
    from torchlint_probe import installation
    from torchlint_probe.probe import Probe

    probe = Probe.from_folder(folder)
    _probes.append(probe)
    installation.install(probe)


def hide_from_dynamo(dynamo: ModuleType) -> None:
    """Keep the hooks out of graphs that are being compiled, now that `torch._dynamo` has been imported."""
    from torchlint_probe.probe import Probe

    for probe in _probes:
        if isinstance(probe, Probe):
            probe.hooks.hide_from_dynamo(dynamo)
