"""Uses of deprecated PyTorch functions, classes and arguments."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule, edits, repairs
from torchlint.files.words import AnyName
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import events, utilities, values
from torchlint.model.queries import byte_masks, changed_api, version_guards
from torchlint.pytorch import changes, losses

from ._byte_mask_words import CALLS, may_read

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_SCALED = {"add_": (2, "alpha"), "addcmul_": (3, "value"), "addcdiv_": (3, "value")}
"""Methods that used to take a number first, with the old argument count and the keyword that takes it today."""
_WITHOUT_EPOCH = frozenset({"ReduceLROnPlateau", "CosineAnnealingWarmRestarts", "SequentialLR", "ChainedScheduler"})
"""Schedulers whose `step` takes something else, or takes an epoch without a warning."""


class NumberFirst(NamedTuple):
    """The method `name` at `site` gets its number before its tensors."""

    site: Site
    name: str


class OldScheduler(NamedTuple):
    """The code at `site` uses a scheduler's method `name` in its deprecated form."""

    site: Site
    name: str
    instead: str


class ReadByBytes(NamedTuple):
    """The code at `site` reads or changes elements by the byte mask made at `mask`."""

    site: Site
    mask: Site


class DeprecatedApi(Rule):
    """The code uses a deprecated PyTorch API that warns and will be removed.

    ## What it does
    Finds functions, classes and arguments that issue a deprecation warning, such as:

    - `torch.cuda.amp.autocast` and `GradScaler`
    - `torch.nn.init.xavier_uniform` and similar names without an underscore at the end
    - `clip_grad_norm`, `F.upsample`, `torch.meshgrid` without `indexing`, `p.add_(number, tensor)`
    - `size_average=` and `reduce=` of losses
    - `scheduler.step(epoch)`, and `verbose=` of schedulers
    - byte masks (`x[mask.byte()]`)
    - `pretrained=` of torchvision's models

    Reported only if the replacement exists in the oldest release that the project supports. torchlint reads that
    release from pyproject.toml, setup.cfg, setup.py, requirements.txt or environment.yml.

    Not reported when:

    - The code checks the version of PyTorch.
    - No release that the project supports warns.
    - Only the documentation deprecates the name (`torch.norm`, `torch.svd`).
    - The name is in `torch.jit`, which has no simple replacement.
    - The name is `torch.nn.utils.weight_norm`, whose replacement saves weights under other names.

    ## Why is this bad?
    The warnings fill the log and hide other warnings. In a later release, the line raises, and a training script that
    worked for years no longer starts.

    ## Example
    ```python
    import torch

    def train(model, loader, optimizer, criterion):
        for x, y in loader:
            with torch.cuda.amp.autocast():
                loss = criterion(model(x), y)
    ```

    Use instead:
    ```python
    import torch

    def train(model, loader, optimizer, criterion):
        for x, y in loader:
            with torch.amp.autocast("cuda"):
                loss = criterion(model(x), y)
    ```

    ## Fix safety
    These fixes are safe: a new name for the same function, an explicit default, and the names of the weights that
    `pretrained=True` loads. There is no fix if results, keys of the state_dict or the order of arguments differ.
    Reordering `add_(number, tensor)` is unsafe, because the presumed number may be a tensor. Removing `verbose` is
    unsafe, because the scheduler no longer prints the learning rate.

    ## References
    - [torch.amp](https://docs.pytorch.org/docs/stable/amp.html)
    - [torch.nn.init](https://docs.pytorch.org/docs/stable/nn.init.html)
    - [torch.meshgrid](https://docs.pytorch.org/docs/stable/generated/torch.meshgrid.html)
    """

    code = "TL802"
    category = Category.SUSPICIOUS
    is_maintenance = True
    is_free_unless_run = True
    aliases = ("TOR101", "TOR103", "TOR201", "TOR202")
    triggers = ((b"torch",),)
    calls = CALLS

    @classmethod
    def may_fire(cls, code: bytes) -> bool:
        if any(sign(code) for sign in (_may_use_old_scheduler, _may_lack_argument, _may_be_of_package, may_read)):
            return True
        if any(sign.search(code) for sign in _SIGNS):
            return True
        return any(one.search(code) and other.search(code) for one, other in _TOGETHER)

    def ask(self) -> Iterator[changed_api.Use | NumberFirst | OldScheduler | ReadByBytes]:
        counted = [change for change in changes.DEPRECATIONS if self._counts(change)]
        known = {change.name: change for change in counted}
        yield from changed_api.ChangedApi(self.model.definitions, counted).uses()
        code = self.model.tree.source.code
        if _NUMBER_FIRST.search(code):
            yield from self._numbers_first(known)
        if _may_use_old_scheduler(code):
            yield from self._old_schedulers(known)
        if may_read(code):
            yield from self._read_by_bytes(known)

    def _counts(self, change: changes.Change) -> bool:
        """Whether a change concerns the releases that the project supports, and all of them have the replacement."""
        releases = self.model.torch
        warns = change.status is changes.Status.WARNS and change.since <= releases.highest <= change.until
        return warns and change.instead_since <= releases.lowest

    def _numbers_first(self, known: dict[str, changes.Change]) -> Iterator[NumberFirst]:
        for trace in self.model.program.traces:
            for event in trace.of_kinds(events.Mutate, events.GradRead):
                if not event.site.is_of(ast.Call) or event.site.inner is not None:
                    continue
                call = self.model.tree.node(event.site)
                name = call.func.attr if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else ""
                if f"Tensor.{name}" in known and isinstance(call, ast.Call) and self._is_number_first(call, name):
                    yield NumberFirst(event.site, name)

    def _is_number_first(self, call: ast.Call, name: str) -> bool:
        """Whether a call has a number of arguments that only the old order allows."""
        if call.keywords or len(call.args) != _SCALED[name][0] or any(isinstance(x, ast.Starred) for x in call.args):
            return False
        if any(name in info.methods for info in self.model.definitions.classes.values()):
            return False
        return not version_guards.is_guarded(self.model.tree, call)

    def _old_schedulers(self, known: dict[str, changes.Change]) -> Iterator[OldScheduler]:
        for trace in self.model.program.traces:
            for event in trace.of_kinds(events.Call, events.ScheduleStep):
                call = self.model.tree.own_node(event.site)
                name = call.func.attr if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else ""
                change = known.get(f"LRScheduler.{name}")
                if change is None or not isinstance(call, ast.Call):
                    continue
                has_argument = len(call.args) + len(call.keywords) == 1
                if has_argument == (name == "step") and self._is_scheduler(_scheduler_of(event)):
                    if not version_guards.is_guarded(self.model.tree, call):
                        yield OldScheduler(event.site, name, change.instead)

    def _is_scheduler(self, value: values.Value | None) -> bool:
        """Whether a value is a PyTorch scheduler of a class that warns."""
        value = values.resolved(value) if value is not None else None
        if value is None or not utilities.is_kind(value, utilities.Kind.SCHEDULER):
            return False
        made = self.model.tree.own_node(value.site)
        if not isinstance(made, ast.Call):
            return False
        qualified = self.model.definitions.qualified(self.model.tree.code(made.func), made)
        module, _, last = qualified.rpartition(".")
        return module == "torch.optim.lr_scheduler" and last not in _WITHOUT_EPOCH

    def _read_by_bytes(self, known: dict[str, changes.Change]) -> Iterator[ReadByBytes]:
        for access in byte_masks.accesses(self.model):
            name = "Tensor.__getitem__" if access.reads else "Tensor.__setitem__" if access.stores_number else ""
            if name in known:
                yield ReadByBytes(access.site, access.mask)

    # -- report ---------------------------------------------------------------------------------------

    def report_Use(self, use: changed_api.Use) -> None:
        self.report(
            changed_api.place(use),
            f"{changed_api.subject(use)} has been deprecated since {use.change.release}, and warns",
            help=changed_api.advice(use),
            fix=repairs.changed_call(self.model, self.nodes, use),
        )

    def report_NumberFirst(self, answer: NumberFirst) -> None:
        keyword = _SCALED[answer.name][1]
        self.report(
            answer.site,
            f"`{answer.name}` with the number as first argument has been deprecated since PyTorch 1.5, and warns",
            help=f"pass the number after the tensors, as `{keyword}`",
            fix=self._turned_around(answer, keyword),
        )

    def _turned_around(self, answer: NumberFirst, keyword: str) -> edits.Change | None:
        call = self.model.tree.node(answer.site)
        assert isinstance(call, ast.Call)
        number, *tensors = [self.model.tree.code(argument) for argument in call.args]
        written = [self.written(_site(item)) for item in call.args]
        if not written or None in written or any("\n" in item for item in (number, *tensors)):
            return None
        texts = [*tensors, f"{keyword}={number}"]
        changed = [edits.Replace(node, text) for node, text in zip(written, texts, strict=True) if node is not None]
        return edits.Change(f"pass the number as `{keyword}`", changed)

    def report_OldScheduler(self, answer: OldScheduler) -> None:
        what = "passing an epoch to `step`" if answer.name == "step" else "`get_lr` outside of the scheduler"
        self.report(
            answer.site,
            f"{what} has been deprecated since PyTorch 1.4, and warns: the learning rate may be wrong",
            help=f"call `{answer.instead}`",
        )

    def report_ReadByBytes(self, answer: ReadByBytes) -> None:
        self.report(
            answer.site,
            "indexing with a byte mask has been deprecated since PyTorch 1.2, and warns",
            related=[(answer.mask, "the mask is made here")],
            help="create it with `.bool()`, or use the result of the comparison directly",
        )


def _scheduler_of(event: events.Event) -> values.Value | None:
    """The object whose method is called."""
    if isinstance(event, events.ScheduleStep):
        return event.scheduler
    return event.value.parents[0] if isinstance(event, events.Call) and event.value.parents else None


_COMMON = frozenset("range qr lu cross cholesky Container".split())
"""Last parts of names that are too general by themselves."""
_UPSAMPLE = frozenset("upsample upsample_nearest upsample_bilinear".split())
"""Functions whose names many modules also use for their parts."""
_AMP = frozenset("autocast GradScaler custom_fwd custom_bwd".split())
"""Names that `torch.amp` also has."""
_INIT = frozenset(change.last_name for change in changes.DEPRECATIONS if change.name.startswith("torch.nn.init."))
_MODULES = (
    *("functorch.", "torch.ao.quantization.", "torch.distributed.checkpoint.", "torch.nn.init.", "torch.profiler."),
    *("torch.testing.", "torchvision.transforms."),
)
"""Modules whose name is more specific than the names of their members."""
_CALLED = [
    change
    for change in changes.DEPRECATIONS
    if change.status is changes.Status.WARNS and not change.keyword and not change.name.startswith(_MODULES)
]
_LACKING = {change.last_name: change.lacks for change in _CALLED if change.lacks and change.last_name not in _COMMON}
"""The argument that a call must lack, by the last part of the function's name."""
_NAMES = {change.last_name for change in _CALLED} - _COMMON - _UPSAMPLE - _AMP - _LACKING.keys()
_NAMES -= {"step", "get_lr", "add_", "addcmul_", "addcdiv_", "is_compiling", "__getitem__", "__setitem__"}


def _any(names: Iterable[str]) -> bytes:
    return "|".join(sorted(names)).encode()


_LACKS = {
    name.encode(): LazyPattern(rb"%s\b(?!\s*\([^()]{0,400}\b%s\s*=)" % (name.encode(), argument.encode()))
    for name, argument in sorted(_LACKING.items())
}
"""Names, unless the call passes the argument and contains no other call."""


def _may_lack_argument(data: bytes) -> bool:
    found = (match.start() for name, pattern in _LACKS.items() if name in data for match in pattern.finditer(data))
    return any(not data[max(0, start - 6) : start].endswith((b"np.", b"numpy.")) for start in found)


_NUMBER_FIRST = LazyPattern(rb"add(?<=\badd)(?:c(?:mul|div))?_\s*\((?:(?![^\n]*\b(?:alpha|value))[^\n]*,|\s*\n)")
_SCHEDULER = LazyPattern(rb"\.\s*get_lr\s*\(|(?:sched|LR)\w*\s*\.\s*step\s*\(\s*[^)\s]")
_PREFIXED = LazyPattern(rb"\.\s*(?:(%s)\s*\(|(?:%s)\b)" % (_any(_COMMON), _any(_UPSAMPLE)))


def _may_be_of_package(data: bytes) -> bool:
    """Whether a general name follows a dot, but neither `linalg.` nor `self.`."""
    found = ((match[1], match.start()) for match in _PREFIXED.finditer(data))
    return any(
        not data[max(0, start - 6) : start].endswith(b"linalg" if common else b"self") for common, start in found
    )


_IMPORT = rb"\s+import\b(?:\s*\([^()]{0,4000}?|(?:\\\n|[^\n;]){0,400}?)\b(?:%s)\b"
_SIGNS = (
    AnyName({*_NAMES, "functorch"}),
    LazyPattern(rb"size_average\s*="),
    LazyPattern(rb"gumbel_softmax[^\n]*eps"),
    LazyPattern(rb"ao(?<=\bao)\W{1,9}quantization\b"),
    LazyPattern(rb"distributed\W{1,9}checkpoint\b"),
    LazyPattern(rb"profile[^\n]*use_cuda"),
    LazyPattern(rb"from\s+torch[\w.]*" + _IMPORT % _any(_COMMON | _UPSAMPLE)),
    LazyPattern(rb"from\s+torch\.nn\.init" + _IMPORT % _any(_INIT)),
    LazyPattern(rb"init\b[\s\S]{0,9}\b(?:%s)\s*\(" % _any(_INIT)),
    _NUMBER_FIRST,
)
_TOGETHER = (
    (LazyPattern(rb"reduce\b(?<=\breduce)\s*="), AnyName({*losses.OLD, *losses.OLD.values()})),
    (
        AnyName(_AMP),
        LazyPattern(rb"\b(?:cuda|cpu)[\s.\\]{1,9}(?:amp|as)\b|\b(?:cuda|cpu)\s+import\b[^;=]{0,400}?\bamp\b"),
    ),
    (AnyName({"verbose"}), LazyPattern(rb"lr_sched|LR")),
    (AnyName({"torchvision"}), LazyPattern(rb"\bpretrained\w*\s*=")),
    (AnyName({"ToTensor"}), AnyName({"v2"})),
    (AnyName({"is_compiling"}), AnyName({"_utils"})),
    (AnyName({"assert_allclose"}), LazyPattern(rb"\btorch\W{1,9}(?:import\b[^\n]{0,99}\b)?testing\b")),
)
"""Pairs of words that only matter together."""


def _may_use_old_scheduler(data: bytes) -> bool:
    return b"lr_scheduler" in data and _SCHEDULER.search(data) is not None


def _site(node: ast.AST) -> Site:
    from torchlint.syntax.python_ast import site_of

    return site_of(node)
