import torch


def mean_value_weights(query, cage):
    """Soft coordinates of the query points with regard to the cage vertices."""
    distance = torch.cdist(query, cage)
    raw = 1.0 / (distance.pow(2) + 1e-2)
    raw = raw - 0.1 * raw.mean(-1, keepdim=True)
    return raw / raw.sum(-1, keepdim=True), raw


def move_by_cage(cage, cage_moved, query, verbose=False):
    weights, unnormed = mean_value_weights(query, cage)
    moved = torch.einsum("bqc,bcd->bqd", weights, cage_moved)
    if verbose:
        return moved, weights, unnormed
    return moved
