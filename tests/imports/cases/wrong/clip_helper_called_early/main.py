import torch
from torch import nn
from limits import limit_gradients
from work import accumulate

torch.manual_seed(0)
net = nn.RNN(2, 12, batch_first=True)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for i in range(30):
    opt.zero_grad()
    limit_gradients(net, 0.25)
    value = accumulate(net, torch.randn(8, 9, 2))
    opt.step()
print("loss %.4f" % value)
