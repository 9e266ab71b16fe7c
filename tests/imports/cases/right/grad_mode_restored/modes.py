import torch


class GradMode:
    def __init__(self, on):
        self.on = on

    def __enter__(self):
        self.old = torch.is_grad_enabled()
        torch.set_grad_enabled(self.on)

    def __exit__(self, *_):
        torch.set_grad_enabled(self.old)
