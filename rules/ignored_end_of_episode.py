"""Targets of Q-networks that continue after the end of an episode."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import callees, names, variables
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_DONE = LazyPattern(r"(?i)^(?:batch_|b_)?(?:is_|not_)?(?:dones?|terminals?|terminated)(?:_?(?:masks?|batch|b|t))?$")
_REWARD = LazyPattern(r"(?i)^(?:batch_|b_)?(?:r|rs|rew|rews|rewards?)(?:_?(?:batch|b|t))?$")
_FOLLOWING = LazyPattern(r"(?i)next|prime|following|^(?:s|o|obs|states?)_?(?:2|1|_)$|^(?:s|ns|new_?states?)$")
_PART = LazyPattern(r"(?i)state|obs|action|reward|done|terminal|terminated")
"""Names of the parts of a transition, as attributes or keys."""
_FEWEST = 4
"""The smallest number of parts of a transition: state, action, reward and next state, without the end."""


class IgnoredEnd(NamedTuple):
    """The target at `site` continues after the end of an episode, which `done`, bound at `bound`, would show."""

    site: Site
    bound: Site
    done: str


class IgnoredEndOfEpisode(Rule):
    """The target of a value network continues after the end of an episode.

    ## What it does
    Finds functions that take `done` from a batch of transitions and never use it, although they compute a target
    `reward + gamma * net(next_state)` from the same batch. A conversion of `done` to a tensor does not count as a use.
    If episodes never end, bind the value to `_` instead.

    ## Why is this bad?
    After the last step of an episode, there is no next state. The target adds the value of an unrelated state, so final
    rewards have too little weight. The values of all states drift up, and the agent cannot tell success from failure.

    ## Example
    ```python
    import torch
    import torch.nn.functional as F

    def loss(q, target_q, memory, gamma=0.99):
        state, action, reward, next_state, done = memory.sample(32)
        with torch.no_grad():
            target = reward + gamma * target_q(next_state)
        return F.mse_loss(q(state, action), target)
    ```

    Use instead:
    ```python
    import torch
    import torch.nn.functional as F

    def loss(q, target_q, memory, gamma=0.99):
        state, action, reward, next_state, done = memory.sample(32)
        with torch.no_grad():
            target = reward + gamma * target_q(next_state) * (1 - done)
        return F.mse_loss(q(state, action), target)
    ```

    ## References
    - [Reinforcement learning (DQN) tutorial](https://docs.pytorch.org/tutorials/intermediate/reinforcement_q_learning.html)
    """

    code = "TL554"
    category = Category.SUSPICIOUS
    triggers = ((b"torch",), (b"done", b"terminal", b"terminated", b"Done"), (b"loss", b"Loss", b"backward"))

    def ask(self) -> Iterator[IgnoredEnd]:
        for parts, function in [] if self.model.is_test else self._transitions():
            done = [item for item in parts if _DONE.search(item.id)]
            rewards = {item.id for item in parts if _REWARD.search(item.id)}
            following = {item.id for item in parts if _FOLLOWING.search(item.id)}
            if len(done) != 1 or not rewards or not following or self._is_read(done[0], function):
                continue
            site = self._target(function, rewards, following)
            if site is not None:
                yield IgnoredEnd(python_ast.site_of(site), python_ast.site_of(done[0]), done[0].id)

    def _transitions(self) -> Iterator[tuple[list[ast.Name], ast.AST]]:
        """The variables that get the parts of a batch of transitions, each batch with its function."""
        batches: dict[tuple[ast.AST, str], list[ast.Name]] = defaultdict(list)
        for statement in self.model.tree.of_type(ast.Assign):
            target, function = statement.targets[0], self.model.definitions.function_around(statement)
            if function is None:
                continue
            if isinstance(target, ast.Tuple) and len(target.elts) > _FEWEST:
                yield [item for item in target.elts if isinstance(item, ast.Name)], function.node
            elif isinstance(target, ast.Name) and (batch := _batch_of(statement.value)):
                batches[function.node, batch].append(target)
        for (node, _), parts in batches.items():
            if len({part.id for part in parts}) > _FEWEST:
                yield parts, node

    def _is_read(self, done: ast.Name, function: ast.AST) -> bool:
        """Whether a function reads a name, or may read all its names."""
        return callees.reads_by_text(function, self.model.definitions) or self._is_used(done.id, function)

    def _is_used(self, name: str, function: ast.AST, steps: int = 3) -> bool:
        """Whether a function reads a name for more than a conversion whose result it does not use."""
        same = [item for item in python_ast.walk(function) if isinstance(item, ast.Name) and item.id == name]
        for item in same:
            statement = self.model.tree.statement(item)
            target = statement.targets[0] if isinstance(statement, ast.Assign) else None
            if isinstance(item.ctx, ast.Load):
                if not isinstance(target, ast.Name) or not steps:
                    return True
                if target.id != name and self._is_used(target.id, function, steps - 1):
                    return True
        return False

    def _target(self, function: ast.AST, rewards: set[str], following: set[str]) -> ast.BinOp | None:
        """The sum of a reward and a discounted value of the next state."""
        for node in names.own_nodes(function):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
                for reward, value in ((node.left, node.right), (node.right, node.left)):
                    is_reward = bool(rewards & python_ast.names_in(reward)) and not _has_product(reward)
                    if is_reward and _has_product(value) and self._is_of(value, following):
                        return node
        return None

    def _is_of(self, node: ast.expr, following: set[str], steps: int = 4) -> bool:
        """Whether an expression contains the result of a call for the next state."""
        for item in python_ast.walk(node):
            if isinstance(item, ast.Call) and any(following & python_ast.names_in(given) for given in item.args):
                return True
            if isinstance(item, ast.Name) and steps and item.id not in following:
                bound = variables.bindings(item.id, item, self.model.definitions)
                values = [names.bound_value(target, self.model.tree) for target in bound if target.lineno < item.lineno]
                if any(value is not None and self._is_of(value, following, steps - 1) for value in values):
                    return True
        return False

    def report_IgnoredEnd(self, found: IgnoredEnd) -> None:
        self.report(
            found.site,
            f"this target adds the next state's value even at the end of an episode: nothing reads `{found.done}`",
            related=[(found.bound, "the end of the episode is here")],
            help=f"multiply the value by `1 - {found.done}`",
        )


def _has_product(node: ast.expr) -> bool:
    return any(isinstance(item, ast.BinOp) and isinstance(item.op, ast.Mult) for item in python_ast.walk(node))


def _batch_of(value: ast.expr) -> str:
    """The batch of whose parts only one is in an expression: `batch` of `torch.tensor(batch.done).unsqueeze(1)`."""
    parts = set()
    for item in python_ast.walk(value):
        if isinstance(item, ast.Attribute) and isinstance(item.value, ast.Name) and _PART.search(item.attr):
            parts.add(item.value.id)
        elif isinstance(item, ast.Subscript) and isinstance(item.value, ast.Name):
            key = item.slice.value if isinstance(item.slice, ast.Constant) else None
            if isinstance(key, str) and _PART.search(key):
                parts.add(item.value.id)
    return parts.pop() if len(parts) == 1 else ""
