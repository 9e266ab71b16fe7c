import torch


class Base:
    def backward(self, loss, retain=False):
        loss.backward(retain_graph=retain)

    def after_first(self, loss):
        pass


def backward(loss, **kw):
    loss.backward(**kw)


def backward_all(losses):
    for i, l in enumerate(losses):
        l.backward(retain_graph=i < len(losses) - 1)


def backward_rest(losses):
    for l in losses:
        l.backward()
