import torch
import torch.nn.functional as F
from models import Net, batches
from loading import *


def main():
    model = Net()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for m in model.modules():
        if isinstance(m, torch.nn.ReLU):
            m.inplace = False
    for x, y in batches():
        opt.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()


if __name__ == "__main__":
    main()
