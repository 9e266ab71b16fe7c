import torch
import torch.nn.functional as F
from torch import nn

from seedable import AdditiveNoise, PhaseShift
from signals import SignalDataset, make_loader


def main():
    torch.manual_seed(0)
    dataset = SignalDataset(512, 32, [PhaseShift(), AdditiveNoise()], seed=17)
    loader = make_loader(dataset, batch_size=32, num_workers=2)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    seen = []
    for signals, labels in loader:
        loss = F.cross_entropy(model(signals), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen.append(signals)
    seen = torch.cat(seen)
    print(f"{len(seen)} signals drawn, {len(seen.unique(dim=0))} different ones; loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
