import torch
from torch import nn
from torch.utils.data import DataLoader


class BaseStrategy:
    """Trains one experience after the other and evaluates every few epochs."""

    def __init__(self, model, optimizer, criterion, train_epochs=4, batch_size=16, eval_every=1):
        self.model = model
        self.optimizer = optimizer
        self.criterion = criterion
        self.train_epochs = train_epochs
        self.batch_size = batch_size
        self.eval_every = eval_every
        self.results = []

    def prepare_model(self):
        pass

    def train(self, experience, eval_streams=()):
        self.model.train()
        self.prepare_model()
        for epoch in range(self.train_epochs):
            self.run_epoch(experience)
            if self.eval_every > 0 and epoch % self.eval_every == 0:
                self._eval_now(eval_streams)

    def _eval_now(self, eval_streams):
        modes = {name: module.training for name, module in self.model.named_modules()}
        for stream in eval_streams:
            self.eval(stream)
        for name, module in self.model.named_modules():
            module.training = modes[name]

    def run_epoch(self, experience):
        for x, y in DataLoader(experience, batch_size=self.batch_size, shuffle=True, drop_last=True):
            self.optimizer.zero_grad()
            loss = self.criterion(self.model(x), y)
            loss.backward()
            self.optimizer.step()

    @torch.no_grad()
    def eval(self, experience):
        self.model.eval()
        hits = sum((self.model(x).argmax(1) == y).sum().item() for x, y in DataLoader(experience, batch_size=64))
        self.results.append(hits / len(experience))


class FrozenNormStrategy(BaseStrategy):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.seen = 0

    def prepare_model(self):
        if self.seen > 0:
            for module in self.model.modules():
                if isinstance(module, nn.BatchNorm1d):
                    module.eval()
                    for param in module.parameters():
                        param.requires_grad_(False)
        self.seen += 1
