import torch


class WeightAverage:
    """Keeps smoothed copies of parameters; apply() swaps them in, restore() takes them out."""

    def __init__(self, parameters, decay=0.99, pull=False, pull_rate=1e-3):
        parameters = list(parameters)
        self.parameters = parameters
        self.decay = decay
        self.pull = pull
        self.pull_rate = pull_rate
        self.count = 0
        self.averages = [p.clone().detach() for p in parameters]
        self.aside = None

    def current_decay(self):
        return min(self.decay, (1 + self.count) / (10 + self.count))

    def update(self):
        self.count += 1
        rate = 1.0 - self.current_decay()
        with torch.no_grad():
            for avg, param in zip(self.averages, self.parameters):
                avg32 = avg.float()
                now32 = param.float()
                diff = avg32 - now32
                avg32.add_(diff * rate)
                if avg.dtype != torch.float32:
                    avg.copy_(avg32)
                if self.pull:
                    param.add_(diff * self.pull_rate)

    def apply(self):
        self.aside = [p.detach().clone() for p in self.parameters]
        for avg, param in zip(self.averages, self.parameters):
            param.data.copy_(avg)

    def restore(self):
        for kept, param in zip(self.aside, self.parameters):
            param.data.copy_(kept)
        self.aside = None
