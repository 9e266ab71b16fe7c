"""The semantic model of one module: the meaning of its code for PyTorch, computed lazily and once."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cached_property
from pathlib import PurePath
from typing import TYPE_CHECKING

from torchlint.model import relations
from torchlint.model.cases import Case
from torchlint.model.definitions import ClassInfo, Definitions
from torchlint.model.events import Compute
from torchlint.model.frozen import Frozen
from torchlint.model.imports import Bases, Imports
from torchlint.model.ownership import Ownership
from torchlint.model.parts import Parts
from torchlint.model.program import Program
from torchlint.model.queries import masks
from torchlint.model.queries.endings import Endings
from torchlint.model.queries.parameter_updates import ParameterUpdates
from torchlint.model.queries.retained_graphs import RetainedGraphs
from torchlint.model.queries.sure_graphs import SureGraphs
from torchlint.model.queries.training_layers import TrainingLayers
from torchlint.model.queries.uncalled import Uncalled
from torchlint.model.tracking import Tracking
from torchlint.model.values import External, Tensor, Unknown, Value
from torchlint.pytorch.naming import is_test
from torchlint.pytorch.releases import Releases
from torchlint.syntax.python_ast import Site
from torchlint.syntax.python_tree import PythonTree

if TYPE_CHECKING:
    from torchlint.model.shapes.shapes import Shapes


class Model:
    """The facade for rules. Each part is computed on first use."""

    def __init__(
        self,
        tree: PythonTree,
        calls: Collection[str] = (),
        imports: Imports | None = None,
        torch: Releases | None = None,
        imported_texts: Callable[[], Iterable[bytes]] = tuple,
        bases: Bases | None = None,
        case: Case | None = None,
    ) -> None:
        """`calls` names callables that rules ask about although they train nothing: see `Rule.calls`.

        `imports` follows the module's imports from the repository. Without it these are unknown, except classes that
        `bases` knows. `imported_texts` reads the modules themselves, followed or not. `case` gives the assumed value
        of an option; without it, any value is possible.
        """
        self.tree = tree
        self.torch = torch or Releases()
        """The releases of PyTorch that the project requires."""
        self._imports = imports
        self._imported_texts = imported_texts
        self._bases = bases
        self._calls = calls
        self._case = case

    def release(self) -> None:
        """Free the parts of a model that nothing uses any more: they refer to each other."""
        parts = vars(self)
        program, definitions = parts.get("program"), parts.get("definitions")
        if program is not None:
            program.release()
        if definitions is not None:
            definitions.__dict__.clear()
        parts.clear()

    @cached_property
    def is_test(self) -> bool:
        """Whether the file is a test, where some habits are correct."""
        return is_test(self.tree.source.path, self.tree.source.code)

    @cached_property
    def definitions(self) -> Definitions:
        """Functions, classes and imports, for queries without interpretation."""
        found = Definitions(self.tree, self._imports or self._bases)
        if self._modules is not None:
            self._modules.own = found
        return found

    def is_uncalled(self, line: int) -> bool:
        """Whether a line belongs to code that a script defines and never reaches, and that no file imports."""
        return self._modules is not None and self._uncalled.holds(line) and not self._is_imported

    def reached_calls(self) -> list[ast.Call]:
        """The calls that this script reaches from its first line, in the order of the file."""
        return self._uncalled.calls()

    @cached_property
    def _uncalled(self) -> Uncalled:
        return Uncalled(self.definitions)

    @cached_property
    def _is_imported(self) -> bool:
        """Whether another file of the repository imports this name, from any module."""
        name = PurePath(self.tree.source.path).stem.encode()
        line = re.compile(rb"^[ \t]*(?:from|import)\b[^\n]*\b%s\b" % re.escape(name), re.MULTILINE)
        others = self._modules.search.mentioning((name,)) if self._modules is not None else ()
        return any(line.search(text) for _, text in others)

    @property
    def _modules(self) -> Imports | None:
        return self._bases.imports if self._bases is not None else self._imports

    def imported_class(self, value: Value) -> ClassInfo | None:
        """The class of an object that a class of another file of the repository creates, followed or not."""
        callee = value.callee if isinstance(value, Unknown) else None
        if not isinstance(callee, External) or self._modules is None:
            return None
        found = self._modules.defined(callee.name, self.definitions)
        return found if isinstance(found, ClassInfo) else None

    def importers(self, name: str, words: tuple[bytes, ...]) -> Iterator[Definitions]:
        """The repository files that import this one and contain a name and one of some words, used as hints."""
        return self._modules.importers(name, words) if self._modules is not None else iter(())

    def stores_of(self, name: str) -> Iterator[ast.Attribute]:
        """The assignments to an attribute of this name, here or in any other file of the repository, used as hints.

        Code with access to an object may set an attribute that another file defines: `model.rnn.dropout = 0`.
        """
        words = f".{name} =".encode(), f".{name}=".encode()
        for tree in (self.tree, *(other.tree for other in self._mentioning(words))):
            nodes: Iterator[ast.Attribute] = tree.of_type(ast.Attribute)
            yield from (node for node in nodes if node.attr == name and isinstance(node.ctx, ast.Store))

    def mentions(self, words: tuple[bytes, ...]) -> bool:
        """Whether this file, or another one of the repository, contains one of some words; used as a hint."""
        return any(word in self.tree.source.code for word in words) or next(self._mentioning(words), None) is not None

    def reads_entry(self, key: str) -> bool:
        """Whether this file, or another one of the repository, reads a dictionary's entry with a key; used as a hint.

        A store does not count: `state["x"] = y`.
        """
        pattern = re.compile(rb"""(?:\[\s*["']%s["']\s*\](?!\s*=[^=])|\bget\(\s*["']%s["']|["']%s["']\s+in\b)"""
                             % ((re.escape(key.encode()),) * 3))  # fmt: skip
        words = (b'"%s"' % key.encode(), b"'%s'" % key.encode())
        trees = (self.tree, *(other.tree for other in self._mentioning(words)))
        return any(pattern.search(tree.source.code) for tree in trees)

    def _mentioning(self, words: tuple[bytes, ...]) -> Iterator[Definitions]:
        """The other files of the repository that contain one of some words."""
        return self._modules.mentioning(words) if self._modules is not None else iter(())

    @cached_property
    def imported_texts(self) -> list[bytes]:
        """The texts of this module's imports from the repository, used as hints, which only silence rules."""
        return list(self._imported_texts())

    @cached_property
    def program(self) -> Program:
        """The events of every root of the module."""
        return Program(self.definitions, self._calls, self._imports, self._case)

    @cached_property
    def computed(self) -> list[tuple[Tensor, masks.Calls]]:
        """The tensors that the program computes, also in calls to its modules, each with the calls around it."""
        return list(masks.computed(self.program))

    @cached_property
    def results(self) -> dict[Site, list[Value]]:
        """The results of each call and operator, in all interpretations of it."""
        found: dict[Site, list[Value]] = defaultdict(list)
        for trace in self.program.traces:
            for event in trace.of(Compute):
                found[event.site].append(event.value)
        return found

    @property
    def is_interpreted(self) -> bool:
        """Whether the program has been interpreted."""
        return "program" in vars(self)

    @cached_property
    def tracking(self) -> Tracking:
        """The graphs that values carry."""
        return Tracking(self.program.observations.backwards, self.frozen)

    @cached_property
    def parts(self) -> Parts:
        """The values that are parts of others."""
        return Parts(self.program)

    @cached_property
    def frozen(self) -> Frozen:
        """Modules that may not require gradients."""
        return Frozen(self.program, self.parts)

    @cached_property
    def ownership(self) -> Ownership:
        """The optimizers whose gradients an event affects."""
        return Ownership(self.program, self.tracking, self.parts)

    @cached_property
    def gradients(self) -> relations.gradients.Gradients:
        """The gradients that steps use."""
        return relations.gradients.Gradients(self.program, self.ownership)

    @cached_property
    def retained_graphs(self) -> RetainedGraphs:
        """Graphs that are retained for a second backward."""
        return RetainedGraphs(self.program, self.tracking, self.module_states, self.held, self.parts)

    @cached_property
    def parameter_updates(self) -> ParameterUpdates:
        """Steps between a forward pass and its backward."""
        return ParameterUpdates(self.program, self.tracking, self.gradients)

    @cached_property
    def cadence(self) -> relations.cadence.Cadences:
        """The frequency of events, compared with the steps of an optimizer."""
        return relations.cadence.Cadences(self.program)

    @cached_property
    def datasets(self) -> relations.datasets.Datasets:
        """The datasets behind loaders, and the order of batches."""
        return relations.datasets.Datasets(self.program)

    @cached_property
    def domain(self) -> relations.domain.Domains:
        """The numbers that tensors hold."""
        return relations.domain.Domains(self.program)

    @cached_property
    def held(self) -> relations.held.Held:
        """Values that iterations of loops leave behind."""
        return relations.held.Held(self.program, self.tracking, self.parts, self.ownership)

    @cached_property
    def layout(self) -> relations.layout.Layout:
        """The dimensions of samples and steps."""
        return relations.layout.Layout(self.program)

    @cached_property
    def mode(self) -> relations.mode.Mode:
        """Modules in training and in evaluation."""
        return relations.mode.Mode(self.program, self.tracking, self.parts)

    @cached_property
    def training_layers(self) -> TrainingLayers:
        """The effects that modules have in training only."""
        return TrainingLayers(self.program, self._modules)

    @cached_property
    def endings(self) -> Endings:
        """The operators that produce values."""
        return Endings(self.program)

    @cached_property
    def sure_graphs(self) -> SureGraphs:
        """The certain parts of graphs."""
        return SureGraphs(self.tracking, self.ownership, self.frozen)

    @cached_property
    def module_states(self) -> relations.module_states.ModuleStates:
        """Graphs that modules keep from one call to the next."""
        return relations.module_states.ModuleStates(self.program, self.sure_graphs)

    @cached_property
    def replacements(self) -> relations.provenance.Replacements:
        """Modules in a loss that the optimizer does not hold."""
        return relations.provenance.Replacements(
            self.program, self.ownership, self.parts, self.frozen, self.sure_graphs
        )

    @cached_property
    def provenance(self) -> relations.provenance.Provenance:
        """The origin of modules and parameters."""
        return relations.provenance.Provenance(self.definitions)

    @cached_property
    def terms(self) -> relations.terms.Terms:
        """The terms of losses, and whether parameters learn from them."""
        return relations.terms.Terms(self.program, self.tracking, self.ownership, self.frozen)

    @cached_property
    def shapes(self) -> Shapes:
        """Shapes and element types of tensors."""
        from torchlint.model.shapes.shapes import Shapes  # most files have no tensors to ask about

        return Shapes(self.program)
