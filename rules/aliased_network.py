"""Two names for one network where the code needs a copy."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import values
from torchlint.model.relations import provenance
from torchlint.pytorch import naming
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_FOLLOWER = LazyPattern(r"(?i)(^|_)(target|teacher|ema|ref|reference|old|frozen|momentum|key)(_|$|net|\d)|Target$")
"""Names of networks that follow another one with a delay."""


class CopyOfItself(NamedTuple):
    """The weights of one network are copied into itself at `site`, possibly under two names."""

    site: Site
    target: str
    source: str
    bound: list[Site]
    """The places that assign the network to the two names."""


class OneForTwo(NamedTuple):
    """A class receives one network at `site` for two parameters, and copies weights between them at `copied`.

    The copy may be in another file.
    """

    site: Site
    name: str
    copied: Site | None


class BoundToTrained(NamedTuple):
    """`target` becomes another name of the network `source`, which training still changes."""

    site: Site
    target: str
    source: str


class AliasedNetwork(Rule):
    """Two networks, such as policy and target, are one object.

    ## What it does
    Finds code that copies weights from a network into itself: `target.load_state_dict(policy.state_dict())`, or a
    loop over the parameters of both, where both names refer to one object. Also finds:

    - a class that receives the same network as two of its arguments and copies weights between the two;
    - an update written `target = policy`, which copies nothing.

    ## Why is this bad?
    The target moves with each step of the policy, because it is the policy. Temporal-difference targets, teachers and
    weight averages then no longer lag behind. Learning becomes unstable or collapses, and there is no error.

    ## Example
    ```python
    from torch import nn

    class Agent:
        def __init__(self):
            self.policy = nn.Linear(4, 2)
            self.target = self.policy

        def sync(self):
            self.target.load_state_dict(self.policy.state_dict())
    ```

    Use instead:
    ```python
    import copy
    from torch import nn

    class Agent:
        def __init__(self):
            self.policy = nn.Linear(4, 2)
            self.target = copy.deepcopy(self.policy)

        def sync(self):
            self.target.load_state_dict(self.policy.state_dict())
    ```

    ## What verify shows
    `torchlint verify` compares the memory of the loaded weights with the network's own. It confirms the finding if both
    are the same memory. It refutes the finding if the network has memory of its own.
    """

    code = "TL320"
    category = Category.CORRECTNESS
    triggers = ((b"state_dict", b"parameters", b"Agent", b"Trainer", b"target", b"teacher", b"policy"), (b"torch",))

    def ask(self) -> Iterator[CopyOfItself | OneForTwo | BoundToTrained]:
        if self.model.is_test:
            return
        for copy in self.model.provenance.copies:
            if naming.looks_like_optimizer(python_ast.dotted(copy.target).rpartition(".")[2]):
                continue  # this casts the state to the types of the parameters
            if self.model.provenance.same(copy.target, copy.source) is values.Answer.YES:
                if not self._is_asked(copy.node, copy.target, copy.source):
                    target, source = map(self.model.tree.code, (copy.target, copy.source))
                    places = map(self.model.provenance.bound_at, (copy.target, copy.source))
                    bound = list(dict.fromkeys(place for place in places if place is not None))
                    yield CopyOfItself(python_ast.site_of(copy.node), target, source, bound)
        for call, given, copied in self.model.provenance.one_for_two():
            yield OneForTwo(python_ast.site_of(call), self.model.tree.code(given), copied)
        for call, given in self.model.provenance.kept_and_given():
            yield OneForTwo(python_ast.site_of(call), self.model.tree.code(given), None)
        for statement in self.model.tree.of_type(ast.Assign):
            if self._binds_to_trained(statement):
                target, source = map(self.model.tree.code, (statement.targets[0], statement.value))
                yield BoundToTrained(python_ast.site_of(statement.targets[0]), target, source)

    def _is_asked(self, node: ast.AST, *networks: ast.expr) -> bool:
        """Whether a branch checks one of the networks: `if target is not policy:`."""
        read = {python_ast.dotted(item) for item in networks}
        branches = (item for item in self.model.tree.ancestors(node) if isinstance(item, (ast.If, ast.IfExp)))
        return any(read & python_ast.names_read(branch.test) for branch in branches)

    def _binds_to_trained(self, statement: ast.Assign) -> bool:
        """Whether an update assigns the trained network itself to a follower, and training keeps using it."""
        target, source = statement.targets[0], provenance.itself(statement.value)
        names = python_ast.dotted(target), python_ast.dotted(source)
        if not all(names) or isinstance(target, ast.Subscript) or isinstance(source, ast.Subscript):
            return False
        last = [name.rpartition(".")[2] for name in names]
        if not _FOLLOWER.search(last[0]) or _FOLLOWER.search(last[1]) or self._is_asked(statement, target):
            return False
        return self.model.provenance.is_rebound_to_trained(target, source)

    # -- report ----------------------------------------------------------------------------------------

    def report_CopyOfItself(self, copy: CopyOfItself) -> None:
        if copy.target == copy.source:
            message = f"`{copy.target}` loads its own weights: nothing changes"
        else:
            message = f"`{copy.target}` and `{copy.source}` are the same network: this copies the network into itself"
        related = [(place, "the network is assigned here") for place in copy.bound]
        self.report(copy.site, message, related=related, help="make one of them a copy with `copy.deepcopy(...)`")

    def report_OneForTwo(self, shared: OneForTwo) -> None:
        self.report(
            shared.site,
            f"`{shared.name}` is passed for two parameters, and weights are copied between the two",
            related=[(shared.copied, "this copies the network into itself")] if shared.copied is not None else [],
            help="pass a copy for one of them, such as `copy.deepcopy(...)`",
        )

    def report_BoundToTrained(self, bound: BoundToTrained) -> None:
        self.report(
            bound.site,
            f"`{bound.target}` becomes `{bound.source}` itself, not a copy: it changes with each optimizer step",
            help="copy the weights: `target.load_state_dict(source.state_dict())`",
        )
