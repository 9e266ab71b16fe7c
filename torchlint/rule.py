"""What a rule is: a LibCST visitor that asks the model and reports."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from torchlint.finding import Category, Confidence, Meta, Severity

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.edits import Change
    from torchlint.model import Model

OptionValue = bool | int | str | tuple[str, ...]


@dataclass(frozen=True)
class Report:
    """A finding as a rule makes it: still on nodes. The engine turns it into a `Finding`."""

    node: cst.CSTNode
    message: str
    related: tuple[tuple[cst.CSTNode, str], ...]
    help: str
    severity: Severity
    confidence: Confidence
    fix: Change | None = None


class Rule:
    """Base class of all rules, built-in or third-party.

    Define `visit_<Node>` and `leave_<Node>` methods as in LibCST; they are called during one walk that
    all rules share and their return value is ignored. Ask `self.model`, call `self.report`.
    The docstring is the rule's documentation; the name is the class name in kebab case.
    """

    code: ClassVar[str]
    """`TL` and three digits (a plugin picks letters of its own): the short alias of the name."""
    category: ClassVar[Category]
    preview: ClassVar[bool] = False
    triggers: ClassVar[Sequence[Sequence[bytes]]] = ()
    """Literal bytes: in each group at least one must occur in a file for the rule to be able to fire."""
    options: ClassVar[Mapping[str, OptionValue]] = {}
    """Options of the rule with their defaults, set under `[tool.torchlint.rules.<name>]`."""

    def __init__(self, model: Model, options: Mapping[str, OptionValue] | None = None) -> None:
        self.model = model
        self.settings: Mapping[str, OptionValue] = {**self.options, **(options or {})}
        self.reports: list[Report] = []
        self._reported: set[cst.CSTNode] = set()

    @classmethod
    def rule_name(cls) -> str:
        """`MissingZeroGrad` -> `missing-zero-grad`."""
        return re.sub(r"(?<!^)(?=[A-Z])", "-", cls.__name__).lower()

    @classmethod
    def meta(cls) -> Meta:
        """Name, code, category and documentation of the rule."""
        return Meta(cls.rule_name(), cls.code, cls.category, inspect.cleandoc(cls.__doc__ or ""), cls.preview)

    @classmethod
    def may_fire(cls, data: bytes) -> bool:
        """Whether a file of these bytes could have a finding; must be cheap, and never wrongly no."""
        return all(any(literal in data for literal in group) for group in cls.triggers)

    @classmethod
    def is_worth_a_parse(cls, data: bytes) -> bool:
        """Whether a file in which this rule may fire has to be parsed if no other rule needs that.

        May take a while, though far less than the parse; must never be wrongly no.
        """
        return True

    def report(
        self,
        node: cst.CSTNode,
        message: str,
        *,
        related: Iterable[tuple[cst.CSTNode, str]] = (),
        help: str = "",
        severity: Severity | None = None,
        confidence: Confidence = Confidence.HIGH,
        fix: Change | None = None,
    ) -> None:
        """Report a finding on `node`, the first one only; `related` are nodes that show its other half."""
        if node not in self._reported:
            self._reported.add(node)
            self.reports.append(
                Report(node, message, tuple(related), help, severity or self.category.severity, confidence, fix)
            )
