"""Random generators that a script does not seed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import draws, names
from torchlint.pytorch import randomness
from torchlint.syntax import python_ast

_GENERATORS = ("random", "numpy.random", "torch")
_SEEDS = LazyPattern(r"seed|determinis|reproduc|fix_?rand|set_?rand|random_?state", re.IGNORECASE)
"""Names of functions that may seed all generators."""
_SEEDING_TEXT = LazyPattern(rb"random\s*\.\s*seed|manual_seed|seed_everything|set_(random_)?seed|determinis")
"""Text in a repository module that may seed when the module is imported or called."""
_GIVEN = LazyPattern(r"seed$", re.IGNORECASE)
"""Names of seeds that an unknown function may use to seed."""
_SETS = LazyPattern(r"(?<!initial_)seed|^set_?state$|^set_rng_state")
"""Functions of the generators' modules that set the generators."""
_COMMENT = LazyPattern(r"^[ \t]*#[ \t#]*(random|np\.random|numpy\.random|torch)\.(seed|manual_seed)\b", re.MULTILINE)
_ALIASES = {"np.random": "numpy.random"}
_FIXED = (ast.Name, ast.Attribute, ast.Subscript, ast.Constant, ast.BinOp)
_READS_ONLY = frozenset(
    ("torch numpy random sklearn builtins os sys time math json logging warnings argparse gym gymnasium pandas").split()
)
"""Packages whose functions seed no generator other than the one they name."""
_HARMLESS = frozenset(
    (
        "info debug warning print format write append add add_argument set_defaults join get shuffle sample reset "
        "train_test_split add_text log update"
    ).split()
)
"""Methods that use a seed for something else."""


class Incomplete(NamedTuple):
    """The script seeds `seeded`, first at `site`, but draws from each generator in `missing`, first at its site."""

    site: python_ast.Site
    seeded: tuple[str, ...]
    missing: dict[str, python_ast.Site]


class IncompleteSeeding(Rule):
    """A script seeds one random generator but draws from another.

    ## What it does
    Finds main scripts and notebooks that seed one or two of `random`, `numpy.random` and `torch`, but draw numbers from
    another one, which nothing in the file seeds. Layer weights and a shuffling `DataLoader` draw from `torch`.

    ## Why is this bad?
    The three generators are independent. The script looks reproducible, but the order of the data, the augmentation or
    the initial weights differ from run to run, and so do the results. This rule is off by default, because a module
    that the script imports may seed the other generators.

    ## Example
    ```python
    import random
    import torch

    if __name__ == "__main__":
        torch.manual_seed(0)
        order = list(range(100))
        random.shuffle(order)
    ```

    Use instead:
    ```python
    import random
    import torch

    if __name__ == "__main__":
        torch.manual_seed(0)
        random.seed(0)
        order = list(range(100))
        random.shuffle(order)
    ```

    ## References
    - [Reproducibility](https://docs.pytorch.org/docs/stable/notes/randomness.html)
    """

    code = "TL601"
    category = Category.PEDANTIC
    preview = True
    triggers = ((b"seed",), (b"random",), (b"torch", b"numpy"))

    def ask(self) -> Iterator[Incomplete]:
        if self.model.is_test or not self._is_script() or self._may_seed_all():
            return
        set_somewhere = self._set_somewhere()
        if not set_somewhere or len(set_somewhere) == len(_GENERATORS):
            return
        reached = self.model.reached_calls()
        seedings = [call for call in reached if self._seeds(call)]
        if not seedings or any(draws.is_repeated(call, self.model.definitions) for call in seedings):
            return
        drawing = draws.Draws(self.model.definitions)
        left_out = self._commented_out()
        missing: dict[str, python_ast.Site] = {}
        for call in reached:
            generator = drawing.generator(call)
            if generator is not None and generator not in set_somewhere | left_out:
                missing.setdefault(generator, python_ast.site_of(call))
        if missing:
            seeded = tuple(item for item in _GENERATORS if item in set_somewhere)
            yield Incomplete(python_ast.site_of(seedings[0]), seeded, missing)

    def _is_script(self) -> bool:
        if self.model.tree.source.is_notebook:
            return True
        statements = self.model.tree.module.body
        return any(isinstance(item, ast.If) and python_ast.is_main_guard(item.test) for item in statements)

    # -- seeded generators ----------------------------------------------------------------------------

    def _set_somewhere(self) -> set[str]:
        """The generators that code in the file seeds or sets, including by passing a function that does."""
        nodes = self.model.tree.of_type(ast.Name, ast.Attribute)
        found = {_set_by(self.model.definitions.named(node)) for node in nodes}
        return {item for item in found if item is not None}

    def _commented_out(self) -> set[str]:
        """The generators that a commented-out line seeds, so the author chose not to seed them."""
        comments = _COMMENT.findall(self.model.tree.source.text)
        return {_set_by(f"{_ALIASES.get(module, module)}.{last}") or "" for module, last in comments} - {""}

    def _seeds(self, call: ast.Call) -> bool:
        """Whether a call surely seeds a generator with a number that is the same in each run."""
        given = python_ast.arguments(call)
        if names.imported(call.func, self.model.definitions) not in randomness.SEEDING or len(given) != 1:
            return False
        return not self._is_worker_init(call) and self._is_fixed(given[0])

    def _is_fixed(self, seed: ast.expr) -> bool:
        if isinstance(seed, ast.Call) and self.model.definitions.named(seed.func) == "builtins.int":
            return all(map(self._is_fixed, seed.args))
        if isinstance(seed, ast.Name):
            assigned = names.only_value(seed, self.model.definitions)
            if assigned is not None and not isinstance(assigned, ast.Name):
                return self._is_fixed(assigned)
        if isinstance(seed, ast.BinOp):
            return self._is_fixed(seed.left) and self._is_fixed(seed.right)
        return isinstance(seed, _FIXED) and not python_ast.is_literal(seed, None)

    def _is_worker_init(self, call: ast.Call) -> bool:
        """Whether a call should seed a loader's workers, but seeds immediately."""
        parent = self.model.tree.parent(call)
        return isinstance(parent, ast.keyword) and parent.arg == "worker_init_fn"

    # -- calls that may seed all of them --------------------------------------------------------------

    def _may_seed_all(self) -> bool:
        """Whether code in the file may seed generators that it does not name."""
        if any(_SEEDS.search(name) and _set_by(name) is None for name in self._imported()):
            return True
        if any(map(_SEEDING_TEXT.search, self.model.imported_texts)):
            return True
        return any(map(self._call_may_seed_all, self.model.tree.of_type(ast.Call)))

    def _imported(self) -> Iterator[str]:
        """The qualified names of all imports of the file."""
        for node in self.model.tree.of_type(ast.Import, ast.ImportFrom):
            module = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            yield from (module + alias.name for alias in node.names)

    def _call_may_seed_all(self, call: ast.Call) -> bool:
        name, last = self.model.definitions.named(call.func), python_ast.called_name(call)
        root = name.partition(".")[0]
        if name.startswith("torch.random.fork_rng"):
            return True
        if root in _READS_ONLY or self._is_own(call) or self._is_of_generator(call):
            return False
        if _SEEDS.search(last):
            return not self._is_of_environment(call)
        function = self.model.definitions.function_around(call)
        if function is not None and _SEEDS.search(function.name) and last not in _HARMLESS:
            return True
        return last not in _HARMLESS and any(map(_GIVEN.search, _given_names(call)))

    def _is_own(self, call: ast.Call) -> bool:
        """Whether a call runs a function, class or method of the file, whose body torchlint analyzes too."""
        known, last = self.model.definitions, python_ast.called_name(call)
        if names.imported(call.func, known):
            return False
        return last in known.class_names or any(item.name == last for item in known.functions.values())

    def _is_of_generator(self, call: ast.Call) -> bool:
        """Whether a call is a method of a generator that the program created."""
        made = call.func.value if isinstance(call.func, ast.Attribute) else None
        if isinstance(made, ast.Name):
            made = names.only_value(made, self.model.definitions)
        return isinstance(made, ast.Call) and self.model.definitions.named(made.func) in randomness.GENERATORS

    def _is_of_environment(self, call: ast.Call) -> bool:
        """Whether a call seeds a Gym environment, which has separate generators."""
        makes = {item.partition(".")[0] for item in self.model.definitions.imports.values()}
        words = python_ast.dotted(call.func).replace(".", "_").split("_")
        return bool({"env", "envs"}.intersection(words)) and not makes.isdisjoint({"gym", "gymnasium"})

    # -- report ---------------------------------------------------------------------------------------

    def report_Incomplete(self, incomplete: Incomplete) -> None:
        seeded, missing = _listed(incomplete.seeded), _listed(incomplete.missing)
        are, are_not = ("are" if len(items) > 1 else "is" for items in (incomplete.seeded, incomplete.missing))
        self.report(
            incomplete.site,
            f"{seeded} {are} seeded, but {missing} {are_not} not: each run draws different numbers",
            related=[(site, f"the first draw from `{name}`") for name, site in incomplete.missing.items()],
            help=f"seed {missing} too",
        )


def _set_by(name: str) -> str | None:
    """The generator that a function of this qualified name seeds or sets."""
    module, _, last = name.rpartition(".")
    if not _SETS.search(last):
        return None
    if module in ("random", "numpy.random"):
        return module
    return "torch" if name.startswith("torch.") else None


def _listed(generators: dict[str, python_ast.Site] | tuple[str, ...]) -> str:
    return " and ".join(f"`{item}`" for item in sorted(generators))


def _given_names(call: ast.Call) -> list[str]:
    """The names of a call's parameters, as far as the code shows them, and the names in the arguments."""
    keywords = [item.arg for item in call.keywords if item.arg is not None]
    return keywords + [
        python_ast.dotted(item) for item in python_ast.arguments(call) if isinstance(item, (ast.Name, ast.Attribute))
    ]
