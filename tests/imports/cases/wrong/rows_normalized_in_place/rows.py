def unit_rows(x, eps=1e-6):
    return x.div_(x.norm(dim=1, keepdim=True).clamp(min=eps))
