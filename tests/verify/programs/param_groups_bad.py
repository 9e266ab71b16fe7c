"""Fine-tuning with two learning rates; head and backbone live in separate parameter groups."""
import torch
from torch import nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv1d(2, 8, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool1d(4), nn.Flatten())
        self.head = nn.Linear(32, 3)

    def forward(self, x):
        return self.head(self.backbone(x))


def reset_grads(group):
    for p in group["params"]:
        if p.grad is not None:
            p.grad.detach_().zero_()


net = Net()
opt = torch.optim.SGD(
    [
        {"params": net.backbone.parameters(), "lr": 1e-3},
        {"params": net.head.parameters(), "lr": 1e-2},
    ],
    momentum=0.9,
)

for it in range(24):
    x = torch.randn(16, 2, 20)
    y = torch.randint(0, 3, (16,))
    loss = F.cross_entropy(net(x), y)
    reset_grads(opt.param_groups[-1])
    loss.backward()  # verify: missing-zero-grad confirmed
    torch.nn.utils.clip_grad_norm_(net.parameters(), 5.0)
    opt.step()
    if it % 8 == 0:
        print(it, loss.item())
