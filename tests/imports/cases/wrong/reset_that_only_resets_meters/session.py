class Session:
    """The state of the run; `reset` is called before each batch."""

    def __init__(self, net, optimizer):
        self.net, self.optimizer = net, optimizer
        self.values, self.current = [], None

    def reset(self):
        self.net.train()
        self.current = None

    def note(self, value):
        self.current = value
        self.values.append(value)

    def __str__(self):
        return f"{len(self.values)} batches, first {self.values[0]:.4f} last {self.values[-1]:.4f}"
