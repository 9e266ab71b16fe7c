def sharpen_(w, floor=1e-3):
    """Drop tiny weights."""
    w[w < floor] = 0.0
    w.mul_(1.0 + floor)
    return w
