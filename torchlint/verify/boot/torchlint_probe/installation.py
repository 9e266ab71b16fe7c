"""The installation of the probe: hooks of torch and of the process, and watched lines."""

from __future__ import annotations

import atexit
import multiprocessing.process
import os
from importlib import import_module
from typing import TYPE_CHECKING

import torch
from torch.optim.optimizer import Optimizer

from torchlint_probe.backwards import BackwardHook, GradHook
from torchlint_probe.cuts import BlockHook, Cuts, DecoratorHook
from torchlint_probe.forwards import counted
from torchlint_probe.lines import Watch
from torchlint_probe.observer import Observer
from torchlint_probe.steps import StepHooks
from torchlint_probe.warned import name_lines_of_program

if TYPE_CHECKING:
    from torchlint_probe.probe import Probe

_PATIENCE = 200
"""The maximum number of observed lines of a function without gradients, for the parameters that it names."""
_FORWARDS = {"training-under-no-grad", "undetached-accumulation"}


def install(probe: Probe) -> None:
    """Put the hooks in place."""
    hooks = probe.hooks
    probe.spans.tap(hooks)
    name_lines_of_program()
    hooks.replace(torch.autograd, "backward", BackwardHook(probe))
    hooks.replace(Optimizer, "add_param_group", probe.group_hook)
    hooks.replace(torch, "set_anomaly_enabled", probe.anomaly_hook)
    for module in (torch.cuda, torch.cuda.memory):
        hooks.replace(module, "empty_cache", probe.cache_hook)
    hooks.replace(os, "_exit", probe.exit_hook)
    hooks.replace(multiprocessing.process.BaseProcess, "run", probe.run_hook)
    hooks.replace(import_module("torch.multiprocessing.spawn"), "_wrap", probe.spawn_hook)
    if "retain-graph-in-loop" in probe.rules:
        hooks.replace(torch.autograd, "grad", GradHook(probe))
    if probe.rules & _FORWARDS or probe.plan.compared or probe.hears_calls:
        torch.nn.Module.__call__ = counted(torch.nn.Module.__call__, probe)
    if "training-under-no-grad" in probe.rules:
        hooks.replace(torch.no_grad, "__enter__", BlockHook(probe, Cuts.enter))
        hooks.replace(torch.no_grad, "__exit__", BlockHook(probe, Cuts.leave))
        hooks.replace(torch.no_grad, "__call__", DecoratorHook(probe))
    hooks.replace(torch.autograd.graph.saved_tensors_hooks, "__enter__", probe.saved_hook)
    kinds: set[type[Observer]] = {type(observer) for observer in probe.observers}
    for kind in kinds:
        kind.tap(hooks, probe)
    probe.checks.tap(hooks)
    for owner in (Optimizer, torch.nn.Module):
        hooks.replace(owner, "zero_grad", probe.clear_hook)
    steps = StepHooks(probe)
    hooks.around_steps(steps.before, steps.after)
    probe.lines.watch(watches(probe))
    hooks.before_compiling = probe.end_operators
    probe.observe_operators(True)
    atexit.register(probe.finish)
    probe.wait()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=probe.log.pause, after_in_parent=probe.in_parent, after_in_child=probe.in_child)


def watches(probe: Probe) -> list[Watch]:
    """The lines of the program that some observer needs."""
    found = []
    for claim in probe.plan.claims:
        found.append(Watch(claim.file, claim.reach, probe.reach[claim.index]))
        if claim.index in probe.reads:
            reads = probe.reads[claim.index]
            found += [Watch(claim.file, block, reads, patience=_PATIENCE) for block in claim.blocks]
    for keep in probe.keeps:
        found.append(Watch(keep.claim.file, keep.claim.statement, keep))
        found += [Watch(keep.claim.file, lines, keep.emptied) for lines in keep.claim.resets]
    found += [Watch(item.claim.file, item.claim.statement, item) for item in probe.changes]
    found += [Watch(item.claim.file, item.claim.statement, item) for item in probe.clearings]
    found += [watch for observer in probe.observers for watch in observer.watches()]
    found += probe.checks.watches()
    return found
