"""Model -> trace: the events of each function in order, with the answers of the model's questions."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping

import libcst as cst

from torchlint.collector import collector_paused
from torchlint.engine import looking
from torchlint.finding import Span
from torchlint.knowledge import GradMode
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
    items_in,
)
from torchlint.model.ownership import parameters_of, surely_optimizer
from torchlint.model.program import Trace
from torchlint.model.tracking import is_forward
from torchlint.model.values import Answer, Optimizer, Value, resolved
from torchlint.rule import Rule
from torchlint.source import SourceError, SourceFile
from torchlint.syntax import Tree, parse, with_deep_stack
from torchlint.trace.document import Facts, FileTrace, FunctionTrace, Holding, Place, Row, place, place_text
from torchlint.trace.values import Values, described_with

_FORMS: Mapping[type[cst.CSTNode], str] = {
    cst.If: "if", cst.Match: "match", cst.BooleanOperation: "boolean", cst.IfExp: "conditional", cst.Call: "callees",
    cst.For: "for", cst.While: "while", cst.ListComp: "comprehension", cst.SetComp: "comprehension",
    cst.DictComp: "comprehension", cst.GeneratorExp: "comprehension",
}  # fmt: skip
"""What branches and loops are in the source."""
_GENERATIONS = 8
"""So many owners of a value tell it from others of its name."""


def trace(source: SourceFile, rules: Iterable[type[Rule]] = ()) -> FileTrace:
    """What the model sees in a file, and which of these rules look into it.

    Raises `SyntaxProblem`, and `SourceError` where it is no text or nested too deeply.
    """
    source.text  # noqa: B018 - raises when the bytes are no text
    try:
        with collector_paused():
            return with_deep_stack(lambda: _Lowering(parse(source)).file(looking(rules, source.code)))
    except (RecursionError, MemoryError):
        raise SourceError("code is nested too deeply to be read") from None


class _Lowering:
    """Turns the model of one file into rows. Nodes are needed for their places only."""

    def __init__(self, tree: Tree) -> None:
        self.source = tree.source
        self.model = Model(tree)
        self.program = self.model.program
        self.optimizers = {trace: _optimizers(trace) for trace in self.program.traces}
        self.spans = tree.spans(map(_standing_for, self._nodes()))
        self._places: dict[cst.CSTNode, str] = {}
        self.values = Values(self.model.tracking, self._at)

    def file(self, rules: Iterable[type[Rule]]) -> FileTrace:
        functions = tuple(map(self._function, self._in_source_order()))
        names = tuple(rule.rule_name() for rule in rules)
        skipped = tuple((_name(info), self._span(info.node)) for info in self._skipped())
        cut_short = self.program.interpreter.budget <= 0
        is_test = self.program.is_test
        return FileTrace(self.source, names, is_test, functions, self.values.facts, skipped, cut_short)

    # -- places -------------------------------------------------------------------------------------

    def _nodes(self) -> Iterator[cst.CSTNode]:
        """All nodes whose places are told."""
        values: list[Value] = []
        for trace in self.program.traces:
            for optimizer in self.optimizers[trace]:
                values += [optimizer, *parameters_of(optimizer)[0]]
            if trace.root is not None:
                yield trace.root.node
            for item in items_in(trace.items):
                if isinstance(item, Event):
                    values += [value for fact in _stated(item).values() for value in _values_in(fact)]
                    yield from map(_branching, item.passed)
                if isinstance(item, (Event, Branch, Try, Loop, Inlined)):
                    yield item.node
        yield from (value.node for value in described_with(values) if value.node is not None)
        yield from (info.node for info in self._skipped())

    def _skipped(self) -> list[FunctionInfo]:
        """Functions that were not interpreted, but for constructors, which are read for what they store."""
        machine = self.program.interpreter
        return [
            info
            for info in self.program.definitions.functions.values()
            if isinstance(info.node, cst.FunctionDef)
            and info not in machine.interpreted
            and not (info.name == "__init__" and info.owner in machine.templates)
        ]

    def _span(self, node: cst.CSTNode) -> Span:
        return self.spans[_standing_for(node)]

    def _at(self, node: cst.CSTNode) -> Place:
        return place(self.source, self._span(node))

    def _place(self, node: cst.CSTNode) -> str:
        known = self._places.get(node)
        if known is None:
            known = self._places[node] = place_text(self._at(node))
        return known

    def _arms(self, path: Path) -> list[str]:
        return [f"{self._place(_branching(arm))}/{arm[1]}" for arm in path]

    # -- functions ----------------------------------------------------------------------------------

    def _in_source_order(self) -> list[Trace]:
        """The module's own statements, then the functions."""
        spans = {trace: self._span(trace.root.node) for trace in self.program.traces if trace.root is not None}
        return [self.program.traces[0], *sorted(spans, key=spans.__getitem__)]

    def _function(self, trace: Trace) -> FunctionTrace:
        holdings = tuple(map(self._holding, self.optimizers[trace]))
        rows = tuple(self._rows(trace.items, 0, self.optimizers[trace]))
        if trace.root is None:
            return FunctionTrace("", None, False, holdings, rows)
        return FunctionTrace(_name(trace.root), self._span(trace.root.node), trace.called, holdings, rows)

    def _holding(self, optimizer: Value) -> Holding:
        held, complete = parameters_of(optimizer)
        ids = [self.values.id_of(value) for value in sorted(held, key=_lineage)]
        return Holding(self.values.id_of(optimizer), tuple(ids), complete)

    # -- rows ---------------------------------------------------------------------------------------

    def _rows(self, items: list[Item], depth: int, optimizers: list[Value]) -> Iterator[Row]:
        for item in items:
            if isinstance(item, Event):
                yield Row(depth, _kind(item), self._span(item.node), self._facts(item, optimizers))
            elif isinstance(item, Exit):
                yield Row(depth, "exit", None, {"by": item.kind})
            else:
                yield Row(depth, _kind(item), self._span(item.node), _form(item))
                yield from self._inside(item, depth + 1, optimizers)

    def _inside(self, item: Branch | Try | Loop | Inlined, depth: int, optimizers: list[Value]) -> Iterator[Row]:
        if isinstance(item, (Loop, Inlined)):
            yield from self._rows(item.body, depth, optimizers)
            return
        for number, arm in enumerate(item.arms if isinstance(item, Branch) else [item.body, *item.handlers]):
            yield Row(depth, "arm", None, {"number": number})
            yield from self._rows(arm, depth + 1, optimizers)

    def _facts(self, event: Event, optimizers: list[Value]) -> Facts:
        facts = {name: self._plain(fact) for name, fact in _stated(event).items()}
        if event.mode is not GradMode.ON:
            facts["mode"] = event.mode.value
        return {**facts, **self._position(event), **self._answers(event, optimizers)}

    def _position(self, event: Event) -> Facts:
        """What an event stands in, and what control has come past, as the rules are told it."""
        places = {
            "loops": [self._place(loop.node) for loop in event.loops],
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
        return [self._plain(item) for item in fact] if isinstance(fact, tuple) else fact

    # -- answers ------------------------------------------------------------------------------------

    def _answers(self, event: Event, optimizers: list[Value]) -> Facts:
        """What the model says of an event when it is asked; answers of no are left out."""
        if isinstance(event, Backward):
            return self._by_optimizer("reaches", {item: self._reaches(event, item) for item in optimizers})
        facts = self._by_optimizer("clears", {item: self._clears(event, item) for item in optimizers})
        if isinstance(event, (Compute, Call)) and is_forward(event.value):
            facts["forward"] = True
        if isinstance(event, Call) and self.model.protocol.may_go_backward(event):
            facts["may_go_backward"] = True
        return facts

    def _by_optimizer(self, name: str, answers: Mapping[Value, Answer]) -> Facts:
        sure = {self.values.id_of(item): answer.value for item, answer in answers.items() if answer is not Answer.NO}
        return {name: sure} if sure else {}

    def _reaches(self, event: Backward, optimizer: Value) -> Answer:
        if self.model.protocol.surely_reaches(event, optimizer):
            return Answer.YES
        return Answer.UNKNOWN if self.model.protocol.reaches(event, optimizer) else Answer.NO

    def _clears(self, event: Event, optimizer: Value) -> Answer:
        if isinstance(event, Clear):
            return self.model.protocol.clears(event.target, optimizer)
        if not self.model.protocol.may_clear(event, optimizer):
            return Answer.NO
        return Answer.YES if isinstance(event, Fresh) else Answer.UNKNOWN


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


def _branching(arm: tuple[object, int]) -> cst.CSTNode:
    """The node that an arm is one of."""
    branch, _ = arm
    assert isinstance(branch, (Branch, Try))
    return branch.node


def _kind(item: object) -> str:
    """`GradRead` -> `grad-read`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", type(item).__name__).lower()


def _form(item: Branch | Try | Loop | Inlined) -> Facts:
    if isinstance(item, Loop) and item.implicit:
        return {"form": "closure"}
    return {"form": _FORMS[type(item.node)]} if isinstance(item, (Branch, Loop)) else {}


def _stated(event: Event) -> dict[str, object]:
    """What an event says beside its place, as far as that is not the default."""
    own = [item for item in dataclasses.fields(event) if item.init and item.name not in ("node", "expression")]
    return {item.name: value for item in own if (value := getattr(event, item.name)) != item.default}


def _values_in(fact: object) -> list[Value]:
    parts = fact if isinstance(fact, tuple) else (fact,)
    return [part for part in parts if isinstance(part, Value)]


def _name(info: FunctionInfo) -> str:
    """`Trainer.fit`, and of a nested function `fit.closure`."""
    around = info.owner.name if info.owner is not None else _name(info.enclosing) if info.enclosing is not None else ""
    return f"{around}.{info.name}" if around else info.name


def _standing_for(node: cst.CSTNode) -> cst.CSTNode:
    """The node whose place is told for another: parsers do not agree on brackets, and on what has a place at all."""
    while True:
        if isinstance(node, cst.Tuple):
            node = node.elements[0].value if node.elements else node.lpar[-1]
        elif isinstance(node, cst.GeneratorExp):
            node = node.elt
        elif isinstance(node, cst.CompFor):
            node = node.target
        elif isinstance(node, cst.WithItem):
            node = node.item
        else:
            return node
