import torch


def grad_off():
    torch.set_grad_enabled(False)


def grad_on():
    torch.set_grad_enabled(True)
