import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Configs:
    temperature = 4.0
    soft_weight = 0.9
    hard_weight = 0.1
    epochs = 10

    def __init__(self, large, small, loader):
        self.large = large
        self.small = small
        self.loader = loader
        self.kl_div = nn.KLDivLoss(reduction="batchmean")
        self.hard = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.Adam(small.parameters(), lr=3e-3)

    def step(self, data, target):
        self.large.eval()
        with torch.no_grad():
            large_logits = self.large(data)
        output = self.small(data)
        soft_targets = F.softmax(large_logits / self.temperature, dim=-1)
        soft_log_probabilities = F.log_softmax(output / self.temperature, dim=-1)
        soft_loss = self.kl_div(soft_log_probabilities, soft_targets) * self.temperature ** 2
        hard_loss = self.hard(output, target)
        loss = self.soft_weight * soft_loss + self.hard_weight * hard_loss
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return soft_loss.item(), hard_loss.item()

    def run(self):
        self.small.train()
        for epoch in range(self.epochs):
            for data, target in self.loader:
                losses = self.step(data, target)
        return losses


def network(hidden):
    return nn.Sequential(nn.Linear(10, hidden), nn.ReLU(), nn.Linear(hidden, 5))


def points(count, seed, noise):
    generator = torch.Generator().manual_seed(seed)
    data = torch.randn(count, 10, generator=generator)
    target = (data[:, :5] + data[:, 5:]).argmax(1)
    flipped = torch.rand(count, generator=generator) < noise
    return data, torch.where(flipped, torch.randint(0, 5, (count,), generator=generator), target)


def train_large(data, target):
    model = network(128)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for i in range(100):
        optimizer.zero_grad()
        F.cross_entropy(model(data), target).backward()
        optimizer.step()
    return model


def main():
    torch.manual_seed(0)
    large = train_large(*points(2000, seed=1, noise=0.0))
    loader = DataLoader(TensorDataset(*points(400, seed=2, noise=0.5)), batch_size=50, shuffle=True)
    configs = Configs(large, network(16), loader)
    soft, hard = configs.run()
    data, target = points(1000, seed=3, noise=0.0)
    with torch.no_grad():
        accuracy = (configs.small.eval()(data).argmax(1) == target).float().mean().item()
    print(f"soft loss {soft:.6f}, hard loss {hard:.3f}, accuracy of the small model {accuracy:.3f}")


if __name__ == "__main__":
    main()
