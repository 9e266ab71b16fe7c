"""Model -> trace: the events of each function in order, with the answers of the model's questions."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum

from torchlint.engine.following import Following, imported_training
from torchlint.engine.gate import by_syntax, by_words
from torchlint.engine.rule_table import AnyRule
from torchlint.files.source import SourceError, SourceFile
from torchlint.index import FileIndex
from torchlint.model import Model
from torchlint.model.definitions import FunctionInfo
from torchlint.model.events import (
    Backward,
    Branch,
    Call,
    Clear,
    Compute,
    Event,
    Exit,
    Fresh,
    Inlined,
    Item,
    Loop,
    Path,
    Step,
    Try,
)
from torchlint.model.held_parameters import parameters_of, surely_optimizer
from torchlint.model.imports import Imports
from torchlint.model.module_values import is_forward
from torchlint.model.program import Trace
from torchlint.model.relations import NAMES
from torchlint.model.relations.answer import Answer as RelationAnswer
from torchlint.model.relations.answer import Relation
from torchlint.model.values import Answer, Optimizer, Value, resolved
from torchlint.pytorch.effects import GradMode
from torchlint.rule import Rule
from torchlint.syntax.deep_stack import with_deep_stack
from torchlint.syntax.gc_pause import collector_paused
from torchlint.syntax.python_ast import FUNCTIONS, Site, site_of
from torchlint.syntax.python_tree import PythonTree
from torchlint.syntax.reading import read
from torchlint.trace.document import (
    Answered,
    Arm,
    Facts,
    FileTrace,
    FunctionTrace,
    Holding,
    Place,
    Row,
    place,
    place_text,
)
from torchlint.trace.values import Values

_FORMS: Mapping[str, str] = {
    "If": "if", "Match": "match", "BoolOp": "boolean", "IfExp": "conditional", "Call": "callees",
    "For": "for", "AsyncFor": "for", "While": "while", "ListComp": "comprehension", "SetComp": "comprehension",
    "DictComp": "comprehension", "GeneratorExp": "comprehension",
}  # fmt: skip
"""Branches and loops of the model, as constructs of the source."""
_GENERATIONS = 8
"""So many owners of a value tell it from others of its name."""


def trace(source: SourceFile, rules: Iterable[AnyRule] = (), following: Following | None = None) -> FileTrace:
    """The model's view of a file, and which of these rules analyze it.

    With `following` what it imports of its repository is seen, too.

    Raises `SyntaxProblem`, and `SourceError` where it is no text or nested too deeply.
    """
    try:
        with collector_paused():
            search = following.search(source.path) if following is not None else None
            imported = imported_training(source.code, search) if search is not None else None
            active = by_words(rules, source.code, imported or ())
            if imported is None:
                active = by_syntax(active, FileIndex.of(read(source)))
            imports = Imports(search) if search is not None and imported is not None else None
            return with_deep_stack(lambda: _Lowering(read(source), active, imports).file())
    except (RecursionError, MemoryError):
        raise SourceError("code is nested too deeply to parse") from None


class _Lowering:
    """Turns the model of one file into rows."""

    def __init__(self, tree: PythonTree, rules: Sequence[type[Rule]], imports: Imports | None) -> None:
        self.tree = tree
        self.source = tree.source
        self.rules = rules
        self.imports = imports
        self.model = Model(tree, {name for rule in rules for name in rule.calls}, imports)
        self.program = self.model.program
        self._places: dict[Site, str] = {}
        self.values = Values(self.model.tracking, self._at)

    def file(self) -> FileTrace:
        functions = tuple(map(self._function, self._in_source_order()))
        names = tuple(rule.rule_name() for rule in self.rules)
        skipped = tuple((_name(info), self.tree.span(site_of(info.node))) for info in self._skipped())
        cut_short = self.program.is_cut_short
        is_test = self.program.is_test
        facts, modules = self.values.facts, self._modules()
        answers = tuple(self._relations())
        return FileTrace(self.source, names, is_test, functions, facts, skipped, cut_short, modules, answers)

    def _relations(self) -> Iterator[Answered]:
        """The answers of each relation about places in the file, each answer once."""
        for name in NAMES:
            relation: Relation = getattr(self.model, name)
            given = {answer for answer in relation.answers() if self.tree.own_node(answer.site) is not None}
            yield from (Answered(name, self.tree.span(site), text) for site, text in sorted(given, key=_in_order))

    def _modules(self) -> dict[str, str] | None:
        if self.imports is None:
            return None
        way_to, stops = self.imports.search.way_to, self.imports.stops
        return {way_to(path): stop.value if stop is not None else "" for path, stop in sorted(stops.items())}

    def _skipped(self) -> list[FunctionInfo]:
        """Functions that were not interpreted, not even for what they store or return."""
        seen = self.program.observations.interpreted | self.program.observations.read_aside
        functions = (info for info in self.program.definitions.functions.values() if isinstance(info.node, FUNCTIONS))
        return [info for info in functions if info not in seen]

    # -- places -------------------------------------------------------------------------------------

    def _at(self, site: Site) -> Place:
        return place(self.source, self.tree.span(site))

    def _place(self, site: Site) -> str:
        known = self._places.get(site)
        if known is None:
            known = self._places[site] = place_text(self._at(site))
        return known

    def _arms(self, path: Path) -> list[str]:
        return [f"{self._place(_branching(arm))}/{arm[1]}" for arm in path]

    # -- functions ----------------------------------------------------------------------------------

    def _in_source_order(self) -> list[Trace]:
        """The module's own statements, then the functions."""
        sites = {trace: site_of(trace.root.node) for trace in self.program.traces if trace.root is not None}
        return [self.program.traces[0], *sorted(sites, key=lambda trace: sites[trace].start)]

    def _function(self, trace: Trace) -> FunctionTrace:
        optimizers = _optimizers(trace)
        holdings = tuple(map(self._holding, optimizers))
        rows = tuple(self._rows(trace.items, 0, optimizers))
        if trace.root is None:
            return FunctionTrace("", None, False, holdings, rows)
        span = self.tree.span(site_of(trace.root.node))
        return FunctionTrace(_name(trace.root), span, trace.called, holdings, rows)

    def _holding(self, optimizer: Value) -> Holding:
        held, complete = parameters_of(optimizer)
        ids = [self.values.id_of(value) for value in sorted(held, key=_lineage)]
        return Holding(self.values.id_of(optimizer), tuple(ids), complete)

    # -- rows ---------------------------------------------------------------------------------------

    def _rows(self, items: list[Item], depth: int, optimizers: list[Value]) -> Iterator[Row]:
        for item in items:
            if isinstance(item, Event):
                yield Row(depth, type(item), self.tree.span(item.site), self._facts(item, optimizers))
            elif isinstance(item, Exit):
                yield Row(depth, Exit, None, {"by": item.value})
            else:
                yield Row(depth, type(item), self.tree.span(item.site), _form(item))
                yield from self._inside(item, depth + 1, optimizers)

    def _inside(self, item: Branch | Try | Loop | Inlined, depth: int, optimizers: list[Value]) -> Iterator[Row]:
        if isinstance(item, (Loop, Inlined)):
            yield from self._rows(item.body, depth, optimizers)
            return
        for number, arm in enumerate(item.arms if isinstance(item, Branch) else [item.body, *item.handlers]):
            yield Row(depth, Arm, None, {"number": number})
            yield from self._rows(arm, depth + 1, optimizers)

    def _facts(self, event: Event, optimizers: list[Value]) -> Facts:
        facts = {name: self._plain(fact) for name, fact in _stated(event).items()}
        if event.mode is not GradMode.ON:
            facts["mode"] = event.mode.value
        return {**facts, **self._position(event), **self._answers(event, optimizers)}

    def _position(self, event: Event) -> Facts:
        """The position of an event: the structures around it, and the control flow before it, as rules see it."""
        places = {
            "loops": [self._place(loop.site) for loop in event.loops],
            "calls": [self._place(call) for call in event.calls],
            "path": self._arms(event.path),
            "passed": self._arms(event.passed),
            "undecided": self._arms(event.undecided),
            "escaped": self._arms(event.escaped),
        }
        return {name: found for name, found in places.items() if found}

    def _plain(self, fact: object) -> object:
        if isinstance(fact, Value):
            return self.values.id_of(fact)
        if isinstance(fact, Enum):
            return fact.value
        return [self._plain(item) for item in fact] if isinstance(fact, tuple) else fact

    # -- answers ------------------------------------------------------------------------------------

    def _answers(self, event: Event, optimizers: list[Value]) -> Facts:
        """The model's answers about an event; answers of no are left out."""
        if isinstance(event, Backward):
            return self._by_optimizer("reaches", {item: self._reaches(event, item) for item in optimizers})
        facts = self._by_optimizer("clears", {item: self._clears(event, item) for item in optimizers})
        if isinstance(event, (Compute, Call)) and is_forward(event.value):
            facts["forward"] = True
        if isinstance(event, Call) and self.model.ownership.may_go_backward(event):
            facts["may_go_backward"] = True
        return facts

    def _by_optimizer(self, name: str, answers: Mapping[Value, Answer]) -> Facts:
        sure = {self.values.id_of(item): answer.value for item, answer in answers.items() if answer is not Answer.NO}
        return {name: sure} if sure else {}

    def _reaches(self, event: Backward, optimizer: Value) -> Answer:
        if self.model.ownership.surely_reaches(event, optimizer):
            return Answer.YES
        return Answer.UNKNOWN if self.model.ownership.reaches(event, optimizer) else Answer.NO

    def _clears(self, event: Event, optimizer: Value) -> Answer:
        if isinstance(event, Clear):
            return self.model.ownership.clears(event.target, optimizer)
        if not self.model.ownership.may_clear(event, optimizer):
            return Answer.NO
        return Answer.YES if isinstance(event, Fresh) else Answer.UNKNOWN


def _in_order(answer: RelationAnswer) -> tuple[int, int, str]:
    return *answer.site.start, answer.text


def _optimizers(trace: Trace) -> list[Value]:
    """The optimizers that a function steps, clears or makes, in this order."""
    stepped = [resolved(event.optimizer) for event in trace.events if isinstance(event, Step)]
    cleared = [resolved(event.target) for event in trace.events if isinstance(event, Clear) and event.target]
    made = [event.value for event in trace.events if isinstance(event, Fresh)]
    others = [value for value in (*cleared, *made) if isinstance(value, Optimizer) or surely_optimizer(value)]
    return list(dict.fromkeys([*stepped, *others]))


def _lineage(value: Value) -> list[tuple[int, str]]:
    """When a value was made, its name, and those of what it is a part of: tells values apart, the same in each run."""
    found: list[tuple[int, str]] = []
    while len(found) < _GENERATIONS:
        found.append((value.order, value.label))
        if not value.parents:
            break
        value = value.parents[0]
    return found


def _branching(arm: tuple[object, int]) -> Site:
    """The site of what an arm is one of."""
    branch, _ = arm
    assert isinstance(branch, (Branch, Try))
    return branch.site


def _form(item: Branch | Try | Loop | Inlined) -> Facts:
    if isinstance(item, Loop) and item.implicit:
        return {"form": "closure"}
    return {"form": _FORMS[item.site.written.kind]} if isinstance(item, (Branch, Loop)) else {}


def _stated(event: Event) -> dict[str, object]:
    """The facts of an event besides its place, where they differ from the default."""
    own = [item for item in dataclasses.fields(event) if item.init and item.name not in ("site", "expression")]
    return {item.name: value for item in own if (value := getattr(event, item.name)) != item.default}


def _name(info: FunctionInfo) -> str:
    """`Trainer.fit`, and of a nested function `fit.closure`."""
    around = info.owner.name if info.owner is not None else _name(info.enclosing) if info.enclosing is not None else ""
    return f"{around}.{info.name}" if around else info.name
