import torch
import torch.nn.functional as F
from torch import nn

from losses import spread


def main():
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(20):
        x, y = torch.randn(16, 4), torch.randint(0, 3, (16,))
        out = model(x)
        loss = F.cross_entropy(out, y) + 0.1 * spread(out.detach().numpy())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
