"""Targets of Q-networks that continue after the end of an episode."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import names
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_DONE = LazyPattern(r"(?i)^(?:batch_|b_)?(?:is_|not_)?(?:dones?|terminals?|terminated)(?:_?(?:masks?|batch|b|t))?$")
_REWARD = LazyPattern(r"(?i)^(?:batch_|b_)?(?:r|rs|rew|rews|rewards?)(?:_?(?:batch|b|t))?$")
_FOLLOWING = LazyPattern(r"(?i)next|prime|following|^(?:s|o|obs|states?)_?(?:2|1|_)$|^(?:s|ns|new_?states?)$")
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
    Finds functions that take `done` from a batch of transitions and never read it, although they compute a target
    `reward + gamma * net(next_state)` from the same batch. If episodes never end, bind the value to `_` instead.

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
        for statement in [] if self.model.is_test else self.model.tree.of_type(ast.Assign):
            target = statement.targets[0]
            function = self.model.definitions.function_around(statement)
            if not isinstance(target, ast.Tuple) or len(target.elts) <= _FEWEST or function is None:
                continue
            parts = [item for item in target.elts if isinstance(item, ast.Name)]
            done = [item for item in parts if _DONE.search(item.id)]
            rewards = {item.id for item in parts if _REWARD.search(item.id)}
            following = {item.id for item in parts if _FOLLOWING.search(item.id)}
            if len(done) != 1 or not rewards or not following or self._is_read(done[0], function.node):
                continue
            site = self._target(function.node, rewards, following)
            if site is not None:
                yield IgnoredEnd(python_ast.site_of(site), python_ast.site_of(done[0]), done[0].id)

    def _is_read(self, done: ast.Name, function: ast.AST) -> bool:
        """Whether a function reads a name, or may read all its names."""
        return any(
            isinstance(item, ast.Name) and (item.id == "locals" or (item.id == done.id and item is not done))
            for item in python_ast.walk(function)
        )

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
                value = names.only_value(item, self.model.definitions)
                if value is not None and self._is_of(value, following, steps - 1):
                    return True
        return False

    def report_IgnoredEnd(self, found: IgnoredEnd) -> None:
        self.report(
            found.site,
            f"this target adds the next value even at the end of an episode, because nothing reads `{found.done}`",
            related=[(found.bound, "the end of the episode is here")],
            help=f"multiply the value by `1 - {found.done}`",
        )


def _has_product(node: ast.expr) -> bool:
    return any(isinstance(item, ast.BinOp) and isinstance(item.op, ast.Mult) for item in python_ast.walk(node))
