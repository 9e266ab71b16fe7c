import torch
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from evaluator import Evaluator, aggregate


class ForcesTrainer:
    def __init__(self, model, train_set, val_set, batch_size):
        self.model = DistributedDataParallel(model)
        self.sampler = DistributedSampler(train_set)
        self.train_loader = DataLoader(train_set, batch_size=batch_size, sampler=self.sampler)
        self.val_loader = DataLoader(val_set, batch_size=batch_size, sampler=DistributedSampler(val_set, shuffle=False))
        self.optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        self.evaluator = Evaluator()

    def forward(self, positions):
        output = self.model(positions)
        return {"energy": output[:, 0], "forces": output[:, 1:]}

    def train(self, epochs):
        for epoch in range(epochs):
            self.sampler.set_epoch(epoch)
            self.model.train()
            for positions, energy, forces in self.train_loader:
                output = self.forward(positions)
                loss = (output["energy"] - energy).abs().mean() + (output["forces"] - forces).square().mean()
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        metrics = {}
        for positions, energy, forces in self.val_loader:
            output = self.forward(positions)
            metrics = self.evaluator.eval(output, {"energy": energy, "forces": forces}, metrics)
            metrics = aggregate(metrics)
        return {name: (entry["total"] / entry["numel"], entry["numel"]) for name, entry in metrics.items()}
