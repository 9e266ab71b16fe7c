import numpy as np


def spread(points):
    """How far the points are apart, as a number."""
    norms = np.linalg.norm(points, axis=1, keepdims=True)
    similarity = np.exp(points / norms @ (points / norms).T)
    return np.log(similarity.sum(axis=1)).mean()
