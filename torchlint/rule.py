"""The base class of rules: a visitor that asks the model and reports."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from torchlint.finding import Category, Confidence, Meta, Severity

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.index import FileIndex
    from torchlint.model import Model
    from torchlint.syntax.edits import Change
    from torchlint.syntax.matching import Nodes, Written
    from torchlint.syntax.python_ast import Site
    from torchlint.syntax.tree import Tree

OptionValue = bool | int | str | tuple[str, ...]
Place: TypeAlias = "Site | cst.CSTNode"
"""Where a finding is: a site of the model's, or a node of LibCST's."""
NodesOf: TypeAlias = "Callable[[], Nodes | None]"
"""Parses the file as it is written, once a fix needs it; None where no fixes are computed."""


@dataclass(frozen=True)
class Report:
    """A finding as a rule makes it: still at a site or node. The engine turns it into a `Finding`."""

    place: Place
    message: str
    related: tuple[tuple[Place, str], ...]
    help: str
    severity: Severity
    confidence: Confidence
    fix: Change | None = None
    about: Place | None = None

    @property
    def subject(self) -> Place:
        """The key by which equal findings merge: the place, or the defect as a whole."""
        return self.place if self.about is None else self.about


class Rule:
    """Base class of all rules, built-in or third-party.

    A rule about what a program does has `ask`, which yields answers of `self.model`, and for each class of answers a
    `report_<Answer>`, which calls `self.report` at its sites; only then, and only for a fix, LibCST parses the file.
    A rule about how code is written defines `visit_<Node>` and `leave_<Node>` methods as in LibCST; they are called
    during one walk that all rules share. The docstring is the rule's documentation; the name is the class name in
    kebab case.
    """

    code: ClassVar[str]
    """`TL` and three digits (a plugin picks letters of its own): the short alias of the name."""
    category: ClassVar[Category]
    preview: ClassVar[bool] = False
    is_maintenance: ClassVar[bool] = False
    """Whether its findings harm no training today, as deprecated names: people see them last, and folded."""
    is_free_unless_run: ClassVar[bool] = False
    """Whether its findings are harmless in a function that its script never calls: there they are previews."""
    aliases: ClassVar[Sequence[str]] = ()
    """Codes that another linter has for the same, which are understood wherever the rule's own is: `TOR101`."""
    triggers: ClassVar[Sequence[Sequence[bytes]]] = ()
    """Literal bytes: in each group at least one must occur in a file for the rule to be able to fire."""
    calls: ClassVar[Collection[str]] = ()
    """Last names of callables (`cross_entropy`) that the rule asks about. The model follows functions that train, and
    those that call one of these, or an object that one has made."""
    address: ClassVar[str] = ""
    """Where a plugin's rule is documented; without it, that is the address of its package."""
    options: ClassVar[Mapping[str, OptionValue]] = {}
    """Options of the rule with their defaults, set under `[tool.torchlint.rules.<name>]`."""

    def __init__(self, model: Model, nodes: NodesOf, options: Mapping[str, OptionValue] | None = None) -> None:
        self.model = model
        self._nodes_of = nodes
        self.settings: Mapping[str, OptionValue] = {**self.options, **(options or {})}
        self.reports: list[Report] = []
        self._reported: set[Place] = set()

    def ask(self) -> Iterable[Any]:
        """Yield the model's answers to the question of the rule."""
        return ()

    @property
    def nodes(self) -> Nodes | None:
        """The file as it is written, by the sites of answers, for fixes.

        None where LibCST cannot parse it, and where no fixes are computed: report the same then.
        """
        return self._nodes_of()

    def written(self, site: Site | None) -> Written | None:
        """LibCST's node at a site, for a fix; None if it is in another file, LibCST parses it differently, or no
        fixes are computed."""
        return self.nodes.at(site) if self.nodes is not None else None

    @property
    def tree(self) -> Tree:
        """The file as it is written, for a rule that visits its nodes."""
        assert self.nodes is not None, "nodes are visited of what LibCST has parsed"
        return self.nodes.tree

    @classmethod
    def rule_name(cls) -> str:
        """`MissingZeroGrad` -> `missing-zero-grad`."""
        return re.sub(r"(?<!^)(?=[A-Z])", "-", cls.__name__).lower()

    @classmethod
    def meta(cls) -> Meta:
        """Name, code, category and documentation of the rule."""
        documentation = inspect.cleandoc(cls.__doc__ or "")
        name, aliases = cls.rule_name(), tuple(cls.aliases)
        return Meta(name, cls.code, cls.category, documentation, cls.preview, aliases, cls.is_maintenance)

    @classmethod
    def may_fire(cls, code: bytes) -> bool:
        """Whether a file that holds the rule's triggers may have a finding, by its bytes.

        It decides whether the file is parsed: keep it cheap, and say no only where there can be no finding.
        """
        return True

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        """Whether a parsed file may have a finding, by its syntax.

        It decides whether the file is interpreted: say no only where there can be no finding.
        """
        return True

    def report(
        self,
        place: Place,
        message: str,
        *,
        related: Iterable[tuple[Place, str]] = (),
        help: str = "",
        severity: Severity | None = None,
        confidence: Confidence = Confidence.HIGH,
        fix: Change | None = None,
        about: Place | None = None,
    ) -> None:
        """Report a finding at a site or node, once per place; `related` are the other places of the defect.

        `about` is a defect with several places, such as the loop of a forward pass. Of the files that lead to it only
        one gets the report, its own first.
        """
        here = getattr(place, "here", place)
        if here not in self._reported:
            self._reported.add(here)
            confidence = Confidence.LOW if self._is_free_at(place) else confidence
            self.reports.append(
                Report(place, message, tuple(related), help, severity or self.category.severity, confidence, fix, about)
            )

    def _is_free_at(self, place: Place) -> bool:
        """Whether a finding at a place is harmless because nothing calls the code."""
        here = getattr(place, "here", None)
        return self.is_free_unless_run and here is not None and self.model.is_uncalled(here.line)
