class StaticScaler:
    """Scales a loss and goes backward through it."""

    def __init__(self, scale=8.0):
        self.scale = scale

    def __call__(self, loss):
        (loss * self.scale).backward()

    def unscale_(self, optimizer):
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.grad.div_(self.scale)
