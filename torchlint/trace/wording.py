"""Plain words for what a trace holds: what a value is, what an optimizer holds, what an event does to whom."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from torchlint.model import events
from torchlint.pytorch import naming
from torchlint.trace.document import Facts, Holding, Row

_KNOWN_ORIGINS = ("scaler", "scheduler", "engine")
"""Origins of values of which the model knows what they are."""
_MAX_ALTERNATIVES = 3
_MAX_OWNERS = 2
"""So many attributes of attributes are explained."""


class Wording:
    """Says things about the values of one file."""

    def __init__(self, values: Mapping[str, Facts]) -> None:
        self.values = values

    # -- values -------------------------------------------------------------------------------------

    def name(self, value: str, owners: int = 1) -> str:
        """A value as the program calls it, in back ticks; without a name, what it is."""
        label = self.values.get(value, {}).get("label")
        if label:
            return f"`{label}`"
        return self.nature(value, owners - 1) if owners else "something"

    def names(self, values: Iterable[str]) -> str:
        return ", ".join(dict.fromkeys(map(self.name, values)))

    def nature(self, value: str, owners: int = _MAX_OWNERS) -> str:
        """The nature of a value, with its owners: "a parameter", "an attribute of `state`, a parameter"."""
        facts: Facts = self.values.get(value, {"kind": "plain"})
        kind: str = facts["kind"]
        if kind == "unknown":
            return self._unknown(facts, owners)
        if kind == "phi":
            natures = dict.fromkeys(self.nature(item, 0) for item in self._alternatives(value))
            return " or ".join(list(natures)[:_MAX_ALTERNATIVES])
        if kind == "tensor":
            return "a leaf that requires grad" if facts.get("leaf") else f"a tensor (`{facts['op']}`)"
        return f"`{facts['class']}`{_line(facts)}" if "class" in facts else _KINDS.get(kind, f"a {kind}")

    def _unknown(self, facts: Facts, owners: int) -> str:
        text = str(_ORIGINS.get(facts["origin"], facts["origin"]))
        owner: str = facts.get("callee") or (facts.get("of") or [""])[0]
        if "{owner}" not in text:
            return text
        if not owner:
            return "the result of a call"
        name = self.name(owner, owners)
        explained = name.startswith("`") and self.values.get(owner, {}).get("kind") in ("unknown", "external", "phi")
        return text.format(owner=name) + (f", {self.nature(owner, owners - 1)}" if owners and explained else "")

    def _alternatives(self, value: str) -> list[str]:
        """The alternatives of a value."""
        found: dict[str, None] = {}
        stack = [value]
        while stack:
            item = stack.pop()
            if item not in found:
                found[item] = None
                stack += reversed(self._inputs(item))
        return [item for item in found if not self._inputs(item)]

    def _inputs(self, value: str) -> list[str]:
        facts = self.values.get(value, {})
        return list(facts["of"]) if facts.get("kind") == "phi" else []

    def is_unknown(self, value: str) -> bool:
        """Whether the file does not show what a value is."""
        known = (*_KNOWN_ORIGINS, "iteration")
        alternatives = [self.values.get(item, {}) for item in self._alternatives(value)]
        return any(facts.get("kind") == "unknown" and facts["origin"] not in known for facts in alternatives)

    # -- optimizers ---------------------------------------------------------------------------------

    def holding(self, holding: Holding) -> str:
        """A description of an optimizer and its parameters."""
        start = f"{self.name(holding.value)}: {self.nature(holding.value)}"
        if self.values[holding.value]["kind"] == "tensor":
            return f"{start}, updated by hand"
        if not holding.holds:
            return f"{start}; what it holds is not known"
        return (
            f"{start}; holds {self.names(holding.holds)} and {'nothing else' if holding.complete else 'perhaps more'}"
        )

    def stepping(self, callee: str) -> str:
        """The id of what has a method `step` that is called, if that may well be an optimizer; else empty."""
        method = self.values.get(callee, {})
        owner = str((method.get("of") or [""])[0])
        facts = self.values.get(owner, {})
        if method.get("label") != "step" or naming.steps_too(facts.get("label", "")):
            return ""
        return owner if facts.get("kind") == "unknown" and facts["origin"] not in _KNOWN_ORIGINS else ""

    # -- events -------------------------------------------------------------------------------------

    def note(self, row: Row, callee: str, optimizers: Sequence[Holding]) -> str:
        """The effect of an event that its source does not show. `callee` is the callee of an unresolved call."""
        mode = {"off": "gradients off", "unknown": "gradients on or off"}.get(row.facts.get("mode", ""), "")
        say = _NOTES.get(row.kind)
        notes = [mode, say(self, row.facts) if say else "", self._effect(row, optimizers)]
        if stepping := self.stepping(callee):
            notes.append(
                f"not recognized as the step of an optimizer; {self.name(stepping)} is {self.nature(stepping)}"
            )
        elif callee and ("clears" in row.facts or "may_go_backward" in row.facts):
            notes.append(f"{self.name(callee)} is {self.nature(callee)}")
        return "; ".join(note for note in notes if note)

    def _effect(self, row: Row, optimizers: Sequence[Holding]) -> str:
        """The effect on the gradients of the optimizers."""
        if row.kind is events.Backward:
            nobody = "for none of the optimizers" if optimizers else ""
            return self._answered(row.facts.get("reaches", {}), "for") or nobody
        if row.kind is events.Clear:
            target = row.facts.get("target")
            other = f"of {self.name(target)}" if target else "of something that is not known"
            return self._answered(row.facts.get("clears", {}), "of") or other
        clears = self.names(row.facts.get("clears", ()))
        if row.kind is events.Fresh:
            return f"no gradients yet in {clears}" if clears else ""
        may = ["run a backward pass"] * ("may_go_backward" in row.facts) + [f"clear the gradients of {clears}"] * bool(
            clears
        )
        return f"may {', or '.join(may)}" if may else ""

    def _answered(self, answers: Mapping[str, str], word: str) -> str:
        """`for` those of which the model is sure, `perhaps for` the others."""
        sure = self.names(value for value, answer in answers.items() if answer == "yes")
        unsure = self.names(value for value, answer in answers.items() if answer == "unknown")
        return ", ".join([f"{word} {sure}"] * bool(sure) + [f"perhaps {word} {unsure}"] * bool(unsure))

    def _tracked(self, value: str) -> str:
        return str(self.values.get(value, {}).get("tracked", "no"))

    def _computed(self, facts: Facts) -> str:
        return {"yes": "", "no": "no graph", "unknown": "perhaps no graph"}[self._tracked(facts["value"])]

    def _called(self, facts: Facts) -> str:
        """An unknown call is asked for its graph where it may be a forward pass."""
        return self._computed(facts) if "forward" in facts or self._tracked(facts["value"]) == "no" else ""

    def _backward(self, facts: Facts) -> str:
        retained = {True: "retains the graph", None: "may retain the graph"}.get(facts.get("retain", False), "")
        return "the loss has no graph" if self._tracked(facts["loss"]) == "no" else retained

    def _keep(self, facts: Facts) -> str:
        name = f"`{facts['name']}`" if facts["name"] else self.name(facts["container"])
        if facts["how"] == "clear":
            return f"{name} is emptied"
        graph = {"yes": "with its graph", "no": "without a graph", "unknown": "perhaps with its graph"}
        where = "added to" if facts["how"] == "add" else "kept in"
        return f"{where} {name} {graph[self._tracked(facts['value'])]}"

    def _mutate(self, facts: Facts) -> str:
        target: str = facts["target"]
        leaf = self.values.get(target, {}).get("leaf") and "a leaf that requires grad"
        by_operator = not facts["how"].endswith("_")
        unsure = ", if it is a tensor" if by_operator and self.is_unknown(target) else ""
        return f"{leaf or self.name(target)} in place{unsure}"

    def _step(self, facts: Facts) -> str:
        return f"of {self.name(facts['optimizer'])}{', by hand' * facts.get('manual', False)}"


_ORIGINS = {
    "parameter": "a parameter",
    "global": "a name that this file does not define",
    "attribute": "an attribute of {owner}",
    "element": "an element of {owner}",
    "iteration": "what iterating over {owner} gives",
    "method": "a method of {owner}",
    "call": "the result of {owner}",
    "object": "an object of {owner}",
    "grad": "the gradient of {owner}",
    "super": "a base class of another file",
    "scaler": "a gradient scaler",
    "engine": "an engine that trains",
    "scheduler": "a scheduler of learning rates",
    "expression": "an expression that torchlint does not read",
    "sent": "what a generator is sent",
}
"""Descriptions of unknowns, by their origin."""
_KINDS = {
    "plain": "a number, text or None",
    "external": "from another file",
    "function": "not followed here: it calls itself, or there is too much to follow",
    "parameters": "parameters",
    "context": "a context that switches gradients",
}
_NOTES: Mapping[type[object], Callable[[Wording, Facts], str]] = {
    events.Backward: Wording._backward,
    events.Step: Wording._step,
    events.Unscale: lambda words, facts: f"of {words.name(facts['optimizer'])}",
    events.Keep: Wording._keep,
    events.Mutate: Wording._mutate,
    events.Compute: Wording._computed,
    events.Call: Wording._called,
    events.Grad: lambda words, facts: f"of {words.name(facts['outputs'])}; `.grad` stays as it is",
    events.Anomaly: lambda words, facts: {True: "switched on", False: "switched off"}.get(
        facts["on"], "switched on or off"
    ),
}
"""Descriptions of events, apart from their meaning for optimizers."""


def _line(facts: Facts) -> str:
    """The line in which a value was made."""
    line, _, *cell = facts.get("at", [-1, 0])
    return f" of {f'cell {cell[0]}, ' if cell else ''}line {line + 1}" if line >= 0 else ""
