"""Entropies that a policy loss adds, so that training lowers them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Confidence, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import definitions
from torchlint.model.queries import default_numbers, names, numbers, variables, written
from torchlint.syntax import python_ast
from torchlint.syntax.python_ast import Site

_OF_POLICY = LazyPattern(r"(?i)log_?probs?\b|\blogp|\bratios?\b|\bsurr")
"""Names of factors of a policy's loss, a hint beside the entropy of a distribution."""
_REDUCTIONS = frozenset("mean sum squeeze unsqueeze view reshape flatten detach".split())
_STEPS = 6


class Term(NamedTuple):
    """A term of a sum, with its sign, and whether all its coefficients are known."""

    node: ast.expr
    sign: int
    is_known: bool


class Added(NamedTuple):
    """The loss at `loss` contains the entropy at `entropy` with a positive sign."""

    loss: Site
    entropy: Site
    is_known: bool


class PenalizedEntropy(Rule):
    """A policy loss adds the entropy that it should subtract.

    ## What it does
    Finds losses of policy gradients, such as `-(log_prob * advantage).mean()`, to which the code adds
    `weight * dist.entropy()`. If the weight comes from a configuration, it may be negative: then the finding needs
    `--preview`.

    ## Why is this bad?
    An optimizer minimizes the loss, and with it the entropy. The policy becomes certain of its first actions and stops
    exploring. The entropy bonus should do the opposite.

    ## Example
    ```python
    from torch.distributions import Categorical

    def policy_loss(policy, states, actions, advantages):
        dist = Categorical(logits=policy(states))
        loss = -(dist.log_prob(actions) * advantages).mean()
        return loss + 0.01 * dist.entropy().mean()
    ```

    Use instead:
    ```python
    from torch.distributions import Categorical

    def policy_loss(policy, states, actions, advantages):
        dist = Categorical(logits=policy(states))
        loss = -(dist.log_prob(actions) * advantages).mean()
        return loss - 0.01 * dist.entropy().mean()
    ```

    ## References
    - [Asynchronous Methods for Deep Reinforcement Learning](https://arxiv.org/abs/1602.01783), section 4
    """

    code = "TL581"
    category = Category.CORRECTNESS
    triggers = ((b"torch",), (b"entropy",), (b"log_prob",))

    def ask(self) -> Iterator[Added]:
        seen = set[Site]()
        for call in [] if self.model.is_test else self.model.tree.of_type(ast.Call):
            function = self.model.tree.function_around(call)
            if python_ast.called_name(call) != "entropy" or not isinstance(call.func, ast.Attribute) or not function:
                continue
            for node in names.own_nodes(function):
                for site, terms in self._sums(node):
                    entropy = next((term for term in terms if term.node is call and term.sign > 0), None)
                    if entropy is not None and site not in seen and any(map(self._is_policy, terms)):
                        seen.add(site)
                        yield Added(site, python_ast.site_of(call), entropy.is_known)

    def _sums(self, node: ast.AST) -> Iterator[tuple[Site, list[Term]]]:
        """The terms of a sum, or of a variable to which code adds something."""
        if isinstance(node, ast.AugAssign) and isinstance(node.op, (ast.Add, ast.Sub)):
            sign = 1 if isinstance(node.op, ast.Add) else -1
            before = self._value_before(node)
            if before is not None:
                added = list(self._terms(Term(node.value, sign, True)))
                yield python_ast.site_of(node), [*self._terms(Term(before, 1, True)), *added]
        elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
            sign = 1
            around = self.model.tree.parent(node)
            while isinstance(around, (ast.Call, ast.Attribute, ast.UnaryOp, ast.BinOp)):
                if isinstance(around, ast.BinOp) and isinstance(around.op, (ast.Add, ast.Sub)):
                    return  # a part of a longer sum
                if isinstance(around, ast.UnaryOp) and isinstance(around.op, ast.USub):
                    sign = -sign
                around = self.model.tree.parent(around)
            yield python_ast.site_of(node), list(self._terms(Term(node, sign, True)))

    def _value_before(self, node: ast.AugAssign) -> ast.expr | None:
        """The value that the variable of an addition has before, if one statement sets it."""
        if not isinstance(node.target, ast.Name):
            return None
        bound = variables.bindings(node.target.id, node, self.model.definitions)
        statements = [self.model.tree.statement(item) for item in bound]
        values = [item.value for item in statements if isinstance(item, ast.Assign)]
        return values[0] if len(values) == 1 and all(
            isinstance(item, (ast.Assign, ast.AugAssign)) for item in statements
        ) else None  # fmt: skip

    def _terms(self, term: Term, steps: int = _STEPS) -> Iterator[Term]:
        """The terms of a sum, through variables, reductions and factors, each with its sign."""
        node, sign, is_known = term
        inner: list[Term] = []
        if isinstance(node, ast.Name) and steps:
            value = names.only_value(node, self.model.definitions)
            inner = [Term(value, sign, is_known)] if value is not None else []
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            inner = [Term(node.operand, -sign, is_known)]
        elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
            right = sign if isinstance(node.op, ast.Add) else -sign
            inner = [Term(node.left, sign, is_known), Term(node.right, right, is_known)]
        elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Div)):
            inner = self._weighted(node, sign, is_known)
        elif isinstance(node, ast.Call) and python_ast.called_name(node) in _REDUCTIONS:
            operand = self._reduced(node)
            inner = [Term(operand, sign, is_known)] if operand is not None else []
        if not inner or not steps:
            yield term
        for item in inner if steps else ():
            yield from self._terms(item, steps - 1)

    def _weighted(self, node: ast.BinOp, sign: int, is_known: bool) -> list[Term]:
        """The factor of a product that is no number; the product itself if there are several, with their signs."""
        if isinstance(node.op, ast.Div):
            return [Term(node.left, sign, is_known)]
        for factor, weight in ((node.right, node.left), (node.left, node.right)):
            number = self._number(weight)
            if number is not None:
                return [Term(factor, sign if number > 0 else -sign, is_known)]
        for factor, weight in ((node.right, node.left), (node.left, node.right)):
            is_name = bool(python_ast.dotted(weight)) and not _OF_POLICY.search(ast.unparse(factor))
            if is_name and self._is_entropy(factor):
                return [Term(factor, sign, False)]
        flips = [side for side in (node.left, node.right) if isinstance(side, ast.UnaryOp)]
        flips = [side for side in flips if isinstance(side.op, ast.USub)]
        if not flips:
            return []
        plain = flips[0].operand
        rest = node.right if flips[0] is node.left else node.left
        product = ast.copy_location(ast.BinOp(plain, ast.Mult(), rest), node)
        return [Term(product, -sign, is_known)]

    def _is_entropy(self, node: ast.expr) -> bool:
        """Whether an expression is the entropy of a distribution, or its mean."""
        return any(
            isinstance(item.node, ast.Call) and python_ast.called_name(item.node) == "entropy"
            for item in self._terms(Term(node, 1, True), 3)
        )

    def _number(self, node: ast.expr) -> float | None:
        """The number of a weight: a literal, the only value of a variable or attribute, or the default of an option."""
        number = numbers.literal(written.value_of(node, self.model.definitions))
        if number is None and isinstance(node, ast.Name):
            function = self.model.tree.function_around(node)
            number = numbers.literal(definitions.defaults_of(function).get(node.id)) if function is not None else None
        return default_numbers.default_number(node, self.model.definitions) if number is None else number

    def _reduced(self, call: ast.Call) -> ast.expr | None:
        """The operand of `x.mean()` or `torch.mean(x)`."""
        if names.imported(call.func, self.model.definitions).startswith("torch."):
            return call.args[0] if call.args else None
        return call.func.value if isinstance(call.func, ast.Attribute) else None

    def _is_policy(self, term: Term) -> bool:
        """Whether a term is minus the log-probability or ratio times an advantage."""
        called = python_ast.called_name(term.node) if isinstance(term.node, ast.Call) else ""
        is_product = isinstance(term.node, ast.BinOp) or called in ("min", "minimum")
        return term.sign < 0 and is_product and bool(_OF_POLICY.search(ast.unparse(term.node)))

    def report_Added(self, found: Added) -> None:
        self.report(
            found.loss,
            "this adds the entropy to a loss, so training lowers the entropy and the policy stops exploring",
            related=[(found.entropy, "the entropy is computed here")],
            help="subtract the entropy",
            confidence=Confidence.HIGH if found.is_known else Confidence.LOW,
        )
