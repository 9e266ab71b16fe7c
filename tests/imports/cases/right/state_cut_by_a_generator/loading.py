import torch


def repackage(h):
    if h is None:
        return None
    if isinstance(h, torch.Tensor):
        return h.detach()
    return tuple(repackage(v) for v in h)


class Base:
    h = None

    def reset(self):
        self.h = None

    def before(self):
        pass

    def after(self):
        pass
