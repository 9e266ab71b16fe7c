"""Batches are put together in worker processes, where a flagged line runs that never runs in this one."""

import torch
from torch import nn
from torch.utils.data import DataLoader


class Ramps(torch.utils.data.Dataset):
    def __len__(self):
        return 120

    def __getitem__(self, index):
        return torch.linspace(0, 1 + index / 120, 12), torch.tensor([index / 120])


def augmented(samples):
    ramps, targets = map(torch.stack, zip(*samples))
    ramps *= 1.0 + 0.01 * torch.randn(len(samples), 1)  # verify: inplace-on-saved-tensor refuted, says inconclusive
    return ramps, targets


def main():
    torch.manual_seed(74)
    net = nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.NAdam(net.parameters(), lr=1e-3)
    loader = DataLoader(Ramps(), batch_size=20, num_workers=1, collate_fn=augmented, persistent_workers=True)
    for _ in range(2):
        for ramps, targets in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(net(ramps), targets)
            loss.backward()  # verify: missing-zero-grad refuted
            optimizer.step()
    print(loss.item())


if __name__ == "__main__":
    main()
