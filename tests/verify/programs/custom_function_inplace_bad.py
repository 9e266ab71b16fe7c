"""A network with a custom activation that keeps its result for the backward pass."""
import torch
from torch import nn


class SoftExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        result = torch.exp(x.clamp(max=4.0))
        ctx.save_for_backward(result, x)
        return result

    @staticmethod
    def backward(ctx, grad_output):
        result, x = ctx.saved_tensors
        return grad_output * result * (x <= 4.0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(5, 10)
        self.fc2 = nn.Linear(10, 1)

    def forward(self, x):
        h = SoftExp.apply(self.fc1(x))
        first = h[0]
        first += 1  # verify: inplace-on-saved-tensor confirmed, unseen by the linter
        return self.fc2(h)


torch.manual_seed(18)
net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
try:
    for i in range(20):
        x = torch.randn(16, 5)
        loss = (net(x).squeeze(1) - x.norm(dim=1)).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(i, loss.item())
except RuntimeError as exc:
    print("training stopped:", exc.args[0][:70])
