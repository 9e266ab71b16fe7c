class Loop:
    """Subclasses write `step`; it starts with empty gradients."""

    def __init__(self, net, optimizer):
        self.net, self.optimizer = net, optimizer

    def before_step(self):
        self.optimizer.zero_grad()

    def step(self, batch):
        raise NotImplementedError

    def run(self, batches):
        value = None
        for batch in batches:
            self.before_step()
            value = self.step(batch)
        return value
