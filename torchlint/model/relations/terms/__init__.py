"""The terms of a loss: a relation of `model.relations`, with the places at which graphs end."""

from torchlint.model.relations.terms.graph_ends import RESCALING, Cut, End, Ends, GraphEnds, Place, is_literal
from torchlint.model.relations.terms.summands import Term, Terms, is_loss, leaf_of
from torchlint.model.relations.terms.untrained import UntrainedPart

__all__ = [
    "RESCALING",
    "Cut",
    "End",
    "Ends",
    "GraphEnds",
    "Place",
    "Term",
    "Terms",
    "UntrainedPart",
    "is_literal",
    "is_loss",
    "leaf_of",
]
