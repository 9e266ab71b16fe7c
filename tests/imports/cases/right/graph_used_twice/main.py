import torch
from torch import nn
from saliency import input_gradient

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.05)
weights = torch.ones(6)
for step in range(50):
    x = torch.randn(40, 6, requires_grad=True)
    target = x.detach()[:, :2].prod(dim=1, keepdim=True)
    opt.zero_grad()
    out = net(x)
    loss = (out - target).pow(2).mean()
    loss.backward(retain_graph=True)
    weights = 0.9 * weights + 0.1 * input_gradient(out, x).abs().mean(dim=0)
    opt.step()
print("loss %.4f" % loss.item(), "features", [round(w, 2) for w in weights.tolist()])
