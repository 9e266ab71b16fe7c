def spread(points):
    norms = points.norm(dim=1, keepdim=True)
    similarity = (points / norms @ (points / norms).T).exp()
    return similarity.sum(dim=1).log().mean()
