def zero(m):
    for p in m.parameters(recurse=False):
        p.grad = None
