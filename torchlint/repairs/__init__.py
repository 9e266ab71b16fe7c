"""How findings can be repaired, as changes of nodes: what of a file as it is written would have to be another."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ast
    from collections.abc import Sequence

    from torchlint.model import Model
    from torchlint.model.events import Mutate
    from torchlint.model.queries.changed_api import Use
    from torchlint.model.relations.gradients import StaleGradients
    from torchlint.model.values import Value
    from torchlint.repairs.clearing_calls import ClearingWords
    from torchlint.repairs.detaching import KeptTensor
    from torchlint.repairs.training_mode import TrainedInEvaluation
    from torchlint.syntax.edits import Change
    from torchlint.syntax.matching import Nodes
    from torchlint.syntax.python_ast import Site


def clearing_words(model: Model) -> ClearingWords:
    """How a program writes its optimizers and the calls that clear their gradients."""
    from torchlint.repairs.clearing_calls import ClearingWords

    return ClearingWords(model)


def missing_clear(
    model: Model,
    nodes: Nodes | None,
    uncleared: StaleGradients,
    *,
    statement: str | None,
    target: Value | None = None,
) -> Change | None:
    """The clearing that is missing between two steps; None if its place is unknown.

    `statement` clears its gradients, if one is known: those of `target`, or (None) of the optimizer of the step.
    """
    from torchlint.repairs.clear_insertion import MissingClear

    return MissingClear(model, nodes, statement, target).change(uncleared) if nodes is not None else None


def may_register(model: Model, container: ast.AST, attribute: str, holder: str) -> bool:
    """Whether all that a file does with a list or dictionary of modules goes on working in `ModuleList` or the like."""
    from torchlint.repairs.registering_container import RegisteringContainer

    return RegisteringContainer(holder, model.tree).may_replace(container, attribute)


def return_to_training(model: Model, nodes: Nodes | None, trained: Sequence[TrainedInEvaluation]) -> Change | None:
    """A switch back to training, for all that one switch to evaluation leaves in its mode; None where no place is right
    on every path."""
    from torchlint.repairs import training_mode

    return training_mode.return_to_training(model, nodes, trained) if nodes is not None else None


def detach(model: Model, nodes: Nodes | None, kept: KeptTensor) -> Change | None:
    """The form that keeps a tensor without its graph; None where it is written nowhere."""
    from torchlint.repairs.detaching import Detach

    return Detach(model, nodes).change(kept) if nodes is not None else None


def changed_call(model: Model, nodes: Nodes | None, use: Use) -> Change | None:
    """A call of a changed function in its present form; None if that is unknown."""
    from torchlint.repairs.call_forms import ChangedCall

    return ChangedCall(model, nodes).change(use) if nodes is not None else None


def out_of_place(model: Model, nodes: Nodes | None, mutate: Mutate) -> Change | None:
    """The out-of-place form of a change in place; None where there is none, or another name sees it on purpose."""
    from torchlint.repairs.out_of_place_forms import OutOfPlace

    return OutOfPlace(model, nodes).change(mutate) if nodes is not None else None


def without_activation(model: Model, nodes: Nodes | None, loss: Site, activation: Site) -> Change | None:
    """The operand that replaces an activation in front of a loss; None if other code reads the activation."""
    from torchlint.repairs.activation import Activation

    return Activation(model, nodes, loss, activation).removal() if nodes is not None else None


def without_argument(nodes: Nodes | None, call: Site, name: str) -> Change | None:
    """A call without `name=True`; None where that is not written there."""
    from torchlint.repairs.dropped_argument import without

    return without(nodes.at(call), name) if nodes is not None else None
