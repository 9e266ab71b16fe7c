def centre_(x):
    """Take the mean over the last axis away, in place."""
    x -= x.mean(dim=-1, keepdim=True)
    return x
