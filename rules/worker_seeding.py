"""Random numbers that repeat in the workers of a loader."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Confidence, Rule, Severity, edits
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import definitions, utilities, values
from torchlint.model.queries import callees, dataset_draws, default_numbers, held_out, names, written
from torchlint.pytorch import randomness
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.index import FileIndex

_CHANGES = LazyPattern(r"epoch|step|iter|round|time|rand|rng|info|state", re.IGNORECASE)
"""Names whose number may differ in each epoch or worker."""
_INSTEAD = "torch.initial_seed() % 2**32"
_SAMPLERS = ("sampler", "batch_sampler")
_BEFORE_WORKERS = 5
"""The positional arguments of a `DataLoader` before the number of workers."""
_SEVERAL = 2


class CalledInit(NamedTuple):
    """The function for the workers is called at `call` when the loader is created, and it returns None."""

    call: python_ast.Site


class RepeatedSeed(NamedTuple):
    """The calls `seedings` use the same seed in every worker, or (`by_worker`) in every epoch."""

    seedings: tuple[python_ast.Site, ...]
    loader: python_ast.Site
    by_worker: bool
    is_imported: bool = False
    """Whether the calls are in a function of another file; `seedings` is then the argument with this function."""


class CopiedGenerator(NamedTuple):
    """The dataset's generator is created at `made`, and each worker of the loader gets a copy of it."""

    made: python_ast.Site
    loader: python_ast.Site
    name: str


class WorkerSeeding(Rule):
    """The workers or the epochs of a loader repeat the same random numbers.

    ## What it does
    Finds:

    - a `worker_init_fn` that the code calls instead of passing it
    - a `worker_init_fn` that seeds every worker or every epoch with the same number, if the loader has workers and
      its dataset may draw from the generator that the function seeds
    - a random generator that a dataset or its transform stores, so that each worker gets a copy of it

    ## Why is this bad?
    PyTorch seeds `random`, `torch` and (since 1.9) `numpy` in each worker, with a different seed in each epoch. A seed
    that ignores the worker or the epoch removes this difference. Workers then produce the same augmentations as each
    other, or the same ones in every epoch. The model sees fewer different samples. If the code calls the function
    itself, it seeds the main process, and the loader receives None.

    ## Example
    ```python
    import numpy as np
    from torch.utils.data import DataLoader

    def loader(dataset):
        return DataLoader(dataset, num_workers=4, worker_init_fn=np.random.seed(1))
    ```

    Use instead:
    ```python
    from torch.utils.data import DataLoader

    def loader(dataset):
        return DataLoader(dataset, num_workers=4)
    ```

    ## Severity
    Repeated seeds and generators are a warning instead of an error, because a dataset without random numbers is not
    affected.

    ## Fix safety
    For a `worker_init_fn` with a repeated seed, the fix seeds from `torch.initial_seed()`. It is unsafe because it
    changes the random numbers. The other forms have no fix.

    ## What verify shows
    `torchlint verify` compares the batches of the loader's workers, and the states of the generators from which they
    draw. It looks at the loader of the finding, or at the only loader of the program. It confirms the finding if all
    workers return the same batches or draw the same numbers. It never refutes the finding.

    ## References
    - [Randomness in multi-process data loading](https://docs.pytorch.org/docs/stable/notes/randomness.html#dataloader)
    - [PyTorch seeds numpy in workers since 1.9](https://github.com/pytorch/pytorch/pull/56488)
    """

    code = "TL604"
    category = Category.CORRECTNESS
    triggers = (
        (b"DataLoader",),
        (b"worker_init_fn", b"default_rng", b"RandomState", b"Random", b"Generator"),
        (b"seed", b"Dataset"),
    )
    calls = frozenset({"DataLoader"})

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        """Whether a loader's workers get a function, or an object stores a generator."""
        kept = rb"self\s*\.\s*\w+\s*(:[^=\n]+)?=[^=\n]*\b(default_rng|RandomState|Random|Generator)\s*\("
        is_told = re.search(rb"worker_init_fn\s*=(?!\s*None\b)", index.code)
        return bool(is_told or re.search(kept, index.code))

    def ask(self) -> Iterator[CalledInit | RepeatedSeed | CopiedGenerator]:
        for call in self.model.tree.of_type(ast.Call):
            for keyword in call.keywords:
                if keyword.arg == "worker_init_fn":
                    yield from self._about_function(keyword.value, call)
        for loader in self.model.program.observations.loaders:
            yield from self._copied_generators(loader)

    def _is_made_once(self, name: str, info: definitions.ClassInfo) -> bool:
        """Whether only constructors, or methods that they call, set an attribute."""
        classes = [item for item in info.ancestors() if isinstance(item, definitions.ClassInfo)]
        stores = {method for item in classes for method in item.assigned.get(name, ())}
        made = [item.methods["__init__"] for item in classes if "__init__" in item.methods]
        return bool(stores) and stores <= {"__init__", *(name for init in made for name in _called_on_itself(init))}

    # -- the function for the workers -----------------------------------------------------------------

    def _about_function(self, given: ast.expr, loader: ast.Call) -> Iterator[CalledInit | RepeatedSeed]:
        if isinstance(given, ast.Call) and self._returns_none(given):
            yield CalledInit(python_ast.site_of(given))
            return
        options = {item.arg: item.value for item in loader.keywords}
        function = self._function(given)
        if function is None or self._has_no_workers(loader, options) or self._is_held_out(loader):
            return
        lives_on = not python_ast.is_literal(options.get("persistent_workers", ast.Constant(False)), False)
        found: dict[bool, list[python_ast.Site]] = {}
        is_imported = function.definitions is not self.model.definitions
        for seeding, seed in self._seedings(function):
            by_worker = self._is_fixed(seed, function)
            if self._is_unused(seeding, function, loader):
                continue
            if by_worker is False or (by_worker is True and not lives_on):
                found.setdefault(by_worker, []).append(python_ast.site_of(given if is_imported else seeding))
        for by_worker, seedings in found.items():
            yield RepeatedSeed(tuple(dict.fromkeys(seedings)), python_ast.site_of(loader), by_worker, is_imported)

    def _is_unused(self, seeding: ast.Call, function: definitions.FunctionInfo, loader: ast.Call) -> bool:
        """Whether a call seeds a generator from which the loader's dataset surely never draws."""
        module = function.definitions.named(seeding.func)
        dataset = written.argument(loader, 0, "dataset")
        collates = any(item.arg in ("collate_fn", None) for item in loader.keywords)
        if module not in randomness.SEEDING or dataset is None or collates:
            return False
        drawn = dataset_draws.generators_of(dataset, self.model.definitions)
        return drawn is not None and not any(module.startswith(f"{item}.") for item in drawn)

    def _is_held_out(self, loader: ast.Call) -> bool:
        """Whether a loader is for validation or test data, which may be the same in each epoch on purpose.

        A loader that neither shuffles nor samples is one, too.
        """
        options = {item.arg: item.value for item in loader.keywords}
        samplers = [written.value_of(options[name], self.model.definitions) for name in _SAMPLERS if name in options]
        is_plain = "shuffle" in options and python_ast.is_literal(options["shuffle"], False)
        if is_plain and all(python_ast.is_literal(item, None) for item in samplers):
            return True
        statement = self.model.tree.parent(loader)
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        return any(held_out.is_named_held_out(python_ast.dotted(item)) for item in (target, *loader.args[:1]) if item)

    def _has_no_workers(self, loader: ast.Call, options: dict[str | None, ast.expr]) -> bool:
        """Whether a loader has no workers, by its argument or by default, so that the function never runs."""
        workers = options.get("num_workers")
        if isinstance(workers, ast.Name):
            workers = names.only_value(workers, self.model.definitions)
        if workers is None:
            return not ({"num_workers", None} & options.keys() or len(loader.args) > _BEFORE_WORKERS)
        return isinstance(workers, ast.Constant) and not workers.value

    def _returns_none(self, call: ast.Call) -> bool:
        """Whether a call surely returns None: it seeds, or runs a function of the file without a return value."""
        if self.model.definitions.named(call.func) in randomness.SEEDING_WITHOUT_RESULT:
            return True
        info = self.model.definitions.defined(python_ast.dotted(call.func))
        if not isinstance(info, definitions.FunctionInfo) or info.decorators or info.is_generator:
            return False
        own = [node for node in names.own_nodes(info.node) if isinstance(node, ast.Return) and node.value is not None]
        return not own and not isinstance(info.node, (ast.AsyncFunctionDef, ast.Lambda))

    def _function(self, given: ast.expr) -> definitions.FunctionInfo | None:
        """The function of the program that a loader gets, directly or through `functools.partial`."""
        known = self.model.definitions
        if isinstance(given, ast.Call) and known.named(given.func) == "functools.partial" and given.args:
            given = given.args[0]
        return callees.function(given, known)

    def _seedings(self, function: definitions.FunctionInfo, depth: int = 1) -> Iterator[tuple[ast.Call, ast.expr]]:
        """The calls in a function that seed with one argument, themselves or in a function they call, each with it."""
        for node in names.own_nodes(function.node):
            given = python_ast.arguments(node) if isinstance(node, ast.Call) else []
            if not isinstance(node, ast.Call) or len(given) != 1:
                continue
            if self._seeds(node.func, function.definitions):
                yield node, given[0]
                continue
            called = callees.function(node.func, function.definitions)
            inner = self._seedings(called, depth - 1) if called is not None and depth and not called.is_method else ()
            if called is not None and any(python_ast.dotted(seed) in called.parameters for _, seed in inner):
                yield node, given[0]

    def _seeds(self, called: ast.expr, home: definitions.Definitions) -> bool:
        """Whether a name is a function that seeds, or a loop's variable for such functions."""
        if home.named(called) in randomness.SEEDING:
            return True
        iterable = home.tree.iterated(called)
        items = iterable.elts if isinstance(iterable, (ast.Tuple, ast.List)) else []
        return bool(items) and all(home.named(item) in randomness.SEEDING for item in items)

    def _is_fixed(self, seed: ast.expr, function: definitions.FunctionInfo) -> bool | None:
        """Whether the worker's number is the only changing part of a seed. None means that the seed may be anything."""
        own, home = function.parameters[1 if function.is_method else 0 :][:1], function.definitions
        bound = home.names_assigned([function.node])
        pending, seen, by_worker = [seed], set[str](), False
        while pending:
            node = pending.pop()
            if isinstance(node, ast.BinOp):
                pending += [node.left, node.right]
            elif isinstance(node, ast.Name) and node.id in own:
                by_worker = True
            elif isinstance(node, ast.Name) and node.id in bound:
                assigned = names.only_value(node, home)
                if assigned is None or node.id in seen:
                    return None
                seen.add(node.id)
                pending.append(assigned)
            elif isinstance(node, ast.Call) and home.named(node.func) == "builtins.int" and len(node.args) == 1:
                pending += node.args
            elif not isinstance(node, ast.Constant) and not self._is_name_of_constant(node):
                return None
        return by_worker

    def _is_name_of_constant(self, node: ast.expr) -> bool:
        """Whether an expression is a name or attribute that appears constant: `seed`, `args.seed`."""
        name = python_ast.dotted(node)
        return isinstance(node, (ast.Name, ast.Attribute)) and bool(name) and not _CHANGES.search(name)

    # -- generators of datasets -----------------------------------------------------------------------

    def _copied_generators(self, loader: utilities.DataLoader) -> Iterator[CopiedGenerator]:
        """Generators that a dataset stores and draws from for each item, where its loader has several workers."""
        dataset = loader.part("dataset")
        dataset = values.resolved(dataset) if dataset is not None else None
        if default_numbers.workers_of(loader, self.model.program) < _SEVERAL:
            return
        if not isinstance(dataset, values.Instance) or loader.site is None or loader.part("worker_init_fn") is not None:
            return
        files = self.model.program.files
        if not self._is_map_style(dataset.info) or any(b"get_worker_info" in tree.source.code for tree in files):
            return
        for owner, name, made in self.model.datasets.generators_of(dataset):
            info = values.class_of(owner)
            methods = ("__getitem__",) if owner is dataset else ("__call__", "forward")
            draws = [method for method in map(info.method, methods) if method is not None] if info is not None else []
            if info is not None and draws and self._is_made_once(name, info) and self._draws(name, draws[0], info):
                yield CopiedGenerator(python_ast.site_of(made), loader.site, name)

    def _is_map_style(self, info: definitions.ClassInfo) -> bool:
        bases = [item for item in info.ancestors() if isinstance(item, str)]
        is_dataset = any(item.startswith("torch.utils.data.") and item.endswith("Dataset") for item in bases)
        return is_dataset and not any(item.endswith("IterableDataset") for item in bases)

    def _draws(self, name: str, draw: definitions.FunctionInfo, info: definitions.ClassInfo) -> bool:
        """Whether a method draws items with a generator, directly or in a call, and nothing seeds the generator."""
        called = {python_ast.called_name(node) for node in names.own_nodes(draw.node) if isinstance(node, ast.Call)}
        drawing = [draw, *(method for key, method in info.methods.items() if key in called)]
        is_read = any(_reads(method, name) for method in drawing)
        seeded = re.compile(rf"\b{re.escape(name)}\s*\.\s*(manual_seed|seed|set_state|setstate|bit_generator)\b")
        return is_read and not any(seeded.search(tree.source.text) for tree in self.model.program.files)

    # -- report ---------------------------------------------------------------------------------------

    def report_CalledInit(self, called: CalledInit) -> None:
        self.report(
            called.call,
            "this calls the function instead of passing it, so `worker_init_fn` is None",
            help="pass the function itself, or omit it: PyTorch seeds each worker",
        )

    def report_RepeatedSeed(self, repeated: RepeatedSeed) -> None:
        every = "worker gets the same seed in every epoch" if repeated.by_worker else "every worker gets the same seed"
        every = f"each {every}" if repeated.by_worker else every
        first, *others = repeated.seedings
        self.report(
            first,
            f"{every}: random numbers repeat, although PyTorch has seeded the worker",
            related=[(site, "and here") for site in others] + [(repeated.loader, "the loader is made here")],
            help=f"delete it, or seed with `{_INSTEAD}`",
            severity=Severity.WARNING,
            confidence=Confidence.MEDIUM,
            fix=None if repeated.is_imported else self._fix(repeated.seedings),
        )

    def report_CopiedGenerator(self, copied: CopiedGenerator) -> None:
        self.report(
            copied.made,
            f"each worker copies `{copied.name}`: all workers and epochs draw the same numbers",
            related=[(copied.loader, "the loader and its workers are created here")],
            help="use `torch` or `numpy.random`: PyTorch seeds them in each worker",
            severity=Severity.WARNING,
            confidence=Confidence.MEDIUM,
        )

    def _fix(self, sites: tuple[python_ast.Site, ...]) -> edits.Change | None:
        """The fix that uses the seed that PyTorch has given the worker."""
        calls = [call for site in sites if isinstance(call := self.model.tree.node(site), ast.Call) and call.args]
        written = [self.written(python_ast.site_of(call.args[0])) for call in calls]
        replaced = [edits.Replace(seed, _INSTEAD) for seed in written if seed is not None]
        is_imported = self.model.definitions.imports.get("torch") == "torch"
        if not is_imported or len(replaced) < len(sites):
            return None
        return edits.Change("seed with PyTorch's seed", replaced)


def _called_on_itself(method: definitions.FunctionInfo) -> Iterator[str]:
    """The methods that a method calls on its own object: `self.reset()`, `super().reset()`."""
    called = (node.func for node in names.own_nodes(method.node) if isinstance(node, ast.Call))
    for function in (item for item in called if isinstance(item, ast.Attribute)):
        is_super = isinstance(function.value, ast.Call) and python_ast.dotted(function.value.func) == "super"
        if is_super or python_ast.dotted(function.value) in method.parameters[:1]:
            yield function.attr


def _reads(method: definitions.FunctionInfo, name: str) -> bool:
    """Whether a method reads an attribute of its object."""
    own = method.parameters[:1]
    nodes = (node for node in python_ast.walk(method.node) if isinstance(node, ast.Attribute) and node.attr == name)
    return any(python_ast.dotted(node.value) in own for node in nodes)
