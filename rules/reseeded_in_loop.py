"""Random generators that every iteration of training seeds with the same number."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Confidence, Rule
from torchlint.index import FileIndex
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import definitions, events
from torchlint.model.queries import names
from torchlint.pytorch import naming, randomness
from torchlint.syntax import python_ast
from torchlint.syntax.python_ast import Site

_BLOCKS = (ast.If, ast.IfExp, ast.With, ast.AsyncWith, *python_ast.TRIES)
_RESTORING = frozenset({"set_rng_state", "set_rng_state_all", "set_state", "setstate"})
_SEEDED = frozenset({"torch.manual_seed", "torch.random.manual_seed", "numpy.random.seed", "random.seed"})

_TRANSFORMING = LazyPattern(r"(?i)transform|aug")


class Reseeded(NamedTuple):
    """The call at `site` sets a fixed seed in each iteration of `loop`, and `draw` uses the generator."""

    site: Site
    draw: Site | None
    """The first draw, or None where another file draws."""
    loop: Site
    called: str
    is_step: bool
    """Whether each iteration of the loop itself makes a training step, outside any inner loop."""


class SameForAll(NamedTuple):
    """The call at `site` sets a fixed seed for each sample of a dataset, and `draw` uses the generator."""

    site: Site
    draw: Site
    called: str


class ReseededInLoop(Rule):
    """Each training step resets the seed and draws the same numbers.

    ## What it does
    Finds a call with a fixed seed, such as `torch.manual_seed(0)`, that each step of a training loop makes. The call
    may be in the loop or in a function that the loop calls, and code after it draws random numbers. Reported only with
    `--preview`: a seed that is set in each epoch.

    Also finds a fixed seed in `__getitem__` of a dataset, before its augmentation.

    Not reported when:

    - The call is under a condition.
    - The call is in `fork_rng`.

    ## Why is this bad?
    All batches get the same noise and masks, and in a diffusion model the same time steps. The model fits this one
    draw, and dropout drops the same units in each step.

    ## Example
    ```python
    import torch

    def train(model, loader, optimizer):
        for x in loader:
            torch.manual_seed(0)
            noise = torch.randn_like(x)
            loss = (model(x + noise) - noise).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    ```

    Use instead:
    ```python
    import torch

    def train(model, loader, optimizer):
        torch.manual_seed(0)
        for x in loader:
            noise = torch.randn_like(x)
            loss = (model(x + noise) - noise).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    ```

    ## What verify shows
    `torchlint verify` observes the seeds of PyTorch's generator. It confirms the finding if the line sets the same seed
    at six steps in a row and other code draws after it. It refutes the finding if the seeds differ or if the program
    restores the state.

    ## References
    - [torch.manual_seed](https://docs.pytorch.org/docs/stable/generated/torch.manual_seed.html)
    """

    code = "TL610"
    category = Category.SUSPICIOUS
    triggers = ((b"manual_seed", b"seed"), (b"step", b"__getitem__"))

    def ask(self) -> Iterator[Reseeded | SameForAll]:
        if self.model.is_test:
            return
        for call, name in names.calls_of(_SEEDED, self.model.definitions):
            if len(python_ast.arguments(call)) == 1:
                yield from self._of_seeding(call, name)
                yield from self._of_item(call, name)
        yield from self._of_imported()

    def _of_item(self, call: ast.Call, name: str) -> Iterator[SameForAll]:
        """A seeding in `__getitem__` before random transforms."""
        function = self.model.definitions.function_around(call)
        if function is None or function.name != "__getitem__" or not _is_plain_place(call, function):
            return
        if not _stays(python_ast.arguments(call)[0], function) or self._is_restored(call):
            return
        owner = function.owner.name if function.owner is not None else ""
        later = (
            node for node in names.own_nodes(function.node) if isinstance(node, ast.Call) and node.lineno > call.lineno
        )
        transforms = (node for node in later if _TRANSFORMING.search(python_ast.called_name(node)))
        draw = self._draw_behind(call, name, function.node) or next(transforms, None)
        if draw is not None and not naming.EVALUATING.search(owner.lower()):
            yield SameForAll(python_ast.site_of(call), python_ast.site_of(draw), ast.unparse(call))

    def _of_seeding(self, call: ast.Call, name: str) -> Iterator[Reseeded]:
        """The loops whose iterations make a seeding call, directly or by calling the function around it."""
        function = self.model.definitions.function_around(call)
        draw = self._draw_behind(call, name, function.node if function is not None else self.model.tree.module)
        loop = self._loop_around(call)
        if draw is None:
            return
        if loop is not None:
            found = self._of_loop(call, draw, loop, call)
        elif function is not None and _is_plain_place(call, function):
            found = next(
                filter(None, (self._of_call(item, call, draw, function) for item in self._calls_of(function))), None
            )
        else:
            return
        if found is not None:
            yield found

    def _of_imported(self) -> Iterator[Reseeded]:
        """Calls in training loops of imported functions that set a seed. The report is at the call."""
        for call in self.model.tree.of_type(ast.Call):
            if self._loop_around(call) is None or not isinstance(call.func, ast.Name):
                continue
            info = self.model.definitions.defined(call.func.id)
            if not isinstance(info, definitions.FunctionInfo) or info.definitions is self.model.definitions:
                continue
            for seeding in names.own_nodes(info.node):
                name = names.imported(seeding.func, info.definitions) if isinstance(seeding, ast.Call) else ""
                if isinstance(seeding, ast.Call) and name in _SEEDED and len(python_ast.arguments(seeding)) == 1:
                    draw = self._draw_behind(seeding, name, info.node, info.definitions)
                    if draw is not None and _is_plain_place(seeding, info):
                        found = self._of_call(call, seeding, call, info)
                        if found is not None:
                            yield found._replace(site=python_ast.site_of(call), draw=None)

    def _calls_of(self, function: definitions.FunctionInfo) -> Iterator[ast.Call]:
        for node in FileIndex.of(self.model.tree).calls_named(function.name):
            if self.model.definitions.function_around(node) is not function:
                yield node

    def _of_call(
        self, call: ast.Call, seeding: ast.Call, draw: ast.Call, function: definitions.FunctionInfo
    ) -> Reseeded | None:
        """A call to a function that sets a seed, which may be the default of a parameter that the call omits."""
        loop = self._loop_around(call)
        seed = python_ast.arguments(seeding)[0]
        given = function.parameters[1 if function.is_method else 0 :]
        if loop is None:
            return None
        if isinstance(seed, ast.Name) and seed.id in given:
            default = definitions.defaults_of(function.node).get(seed.id)
            is_given = len(call.args) > given.index(seed.id) or any(
                item.arg in (seed.id, None) for item in call.keywords
            )
            if is_given or not isinstance(default, ast.Constant) or type(default.value) is not int:
                return None
            if seed.id in function.definitions.names_assigned([function.node]):
                return None
        elif not _stays(seed, function):
            return None
        return self._of_loop(seeding, draw, loop, call)

    def _of_loop(self, seeding: ast.Call, draw: ast.Call, loop: ast.AST, place: ast.Call) -> Reseeded | None:
        is_step = self._trains_in(loop)
        if is_step is None or (place is seeding and not self._is_fixed(seeding, loop)) or self._is_restored(seeding):
            return None
        sites = [python_ast.site_of(node) for node in (seeding, draw, loop)]
        return Reseeded(sites[0], sites[1], sites[2], ast.unparse(seeding), is_step)

    def _is_restored(self, seeding: ast.Call) -> bool:
        """Whether code behind a seeding restores the state of the generator."""
        around = self.model.tree.scope_around(seeding)
        calls = (
            node for node in python_ast.walk(around) if isinstance(node, ast.Call) and node.lineno > seeding.lineno
        )
        return any(python_ast.called_name(node) in _RESTORING for node in calls)

    def _loop_around(self, call: ast.Call) -> ast.AST | None:
        """The innermost loop in the same function whose iterations all make a call."""
        for item in self.model.tree.ancestors(call):
            if isinstance(item, (*_BLOCKS, *python_ast.SCOPES)):
                return None
            if isinstance(item, python_ast.LOOPS):
                return item
        return None

    def _is_fixed(self, call: ast.Call, loop: ast.AST) -> bool:
        """Whether a seed is a number, or a name that the loop does not change."""
        seed = python_ast.arguments(call)[0]
        if isinstance(seed, ast.Constant):
            return isinstance(seed.value, int)
        name = python_ast.dotted(seed)
        places = (node for node in python_ast.walk(loop) if isinstance(node, (ast.Name, ast.Attribute)))
        stores = {python_ast.dotted(node) for node in places if not isinstance(node.ctx, ast.Load)}
        return bool(name) and stores.isdisjoint({name, name.partition(".")[0]})

    def _draw_behind(
        self, call: ast.Call, name: str, scope: ast.AST, known: definitions.Definitions | None = None
    ) -> ast.Call | None:
        """The first draw after a seeding, in the same function, from the generator that it seeds."""
        return next(
            (
                node
                for node in names.own_nodes(scope)
                if isinstance(node, ast.Call)
                and node.lineno > call.lineno
                and self._draws(node, name, known or self.model.definitions)
                and not any(item.arg == "generator" for item in node.keywords)
            ),
            None,
        )

    def _draws(self, node: ast.Call, seeding: str, within: definitions.Definitions) -> bool:
        name, known = within.named(node.func), seeding.partition(".")[0]
        module, _, last = name.rpartition(".")
        if known == "random":
            return module == "random" and last in randomness.DRAWING_FROM_PYTHON
        if known == "numpy":
            return module == "numpy.random" and last in randomness.DRAWING_FROM_NUMPY
        return name in randomness.DRAWING_FROM_TORCH or python_ast.called_name(node) in randomness.DRAWING_IN_PLACE

    def _trains_in(self, loop: ast.AST) -> bool | None:
        """Whether the iterations of a loop are training steps (True) or epochs (False)."""
        site = python_ast.site_of(loop)
        found: bool | None = None
        for trace in self.model.program.traces:
            for step in trace.of(events.Step):
                around = events.repeating(step.loops)
                own = next((item for item in around if item.site == site), None)
                if own is not None and own not in step.optimizer.loops:
                    if around[-1] is own:
                        return True
                    found = False
        return found

    # -- report ---------------------------------------------------------------------------------------

    def report_SameForAll(self, found: SameForAll) -> None:
        self.report(
            found.site,
            f"`{found.called}` runs for each sample: all samples get the same random numbers",
            related=[(found.draw, "the numbers are drawn here")],
            help="remove it: the loader seeds its workers, and one seed at the start of the program is enough",
            confidence=Confidence.MEDIUM,
        )

    def report_Reseeded(self, reseeded: Reseeded) -> None:
        places = [(reseeded.draw, "the numbers are drawn here"), (reseeded.loop, "the loop is here")]
        every = "step" if reseeded.is_step else "epoch"
        self.report(
            reseeded.site,
            f"`{reseeded.called}` runs in each {every} of training: each one draws the same random numbers",
            related=[(site, text) for site, text in places if site is not None],
            help="seed once before the loop, or draw from a separate generator",
            confidence=Confidence.MEDIUM if reseeded.is_step else Confidence.LOW,
        )


def _is_plain_place(call: ast.Call, function: definitions.FunctionInfo) -> bool:
    """Whether each call to a function reaches a place in it."""
    for item in function.definitions.tree.ancestors(call):
        if item is function.node:
            return True
        if isinstance(item, (*_BLOCKS, *python_ast.LOOPS)):
            return False
    return False


def _stays(seed: ast.expr, function: definitions.FunctionInfo) -> bool:
    """Whether a seed is a number, or a name or attribute that its file binds only in `__init__` or at top level."""
    if isinstance(seed, ast.Constant):
        return isinstance(seed.value, int)
    name = python_ast.dotted(seed).rpartition(".")[2]
    if not name or python_ast.dotted(seed).partition(".")[0] in function.parameters[1 if function.is_method else 0 :]:
        return False
    tree = function.definitions.tree
    for node in tree.of_type(ast.Name, ast.Attribute):
        if not isinstance(node.ctx, ast.Load) and python_ast.dotted(node).rpartition(".")[2] == name:
            around = tree.function_around(node)
            is_start = around is None or around.name == "__init__"
            if not is_start or isinstance(tree.parent(node), (ast.AugAssign, *python_ast.LOOPS)):
                return False
    return True
