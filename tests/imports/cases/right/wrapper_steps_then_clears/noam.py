class Noam:
    """Learning rate of the transformer paper. After `advance` the gradients are empty."""

    def __init__(self, optimizer, dim, warm):
        self.optimizer, self.dim, self.warm = optimizer, dim, warm
        self.n, self.rate = 0, 0.0

    def advance(self):
        self.n += 1
        self.rate = self.dim ** -0.5 * min(self.n ** -0.5, self.n * self.warm ** -1.5)
        for g in self.optimizer.param_groups:
            g["lr"] = self.rate
        self.optimizer.step()
        self.optimizer.zero_grad()
