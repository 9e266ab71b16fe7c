import torch
from nets import Net
from criteria import make_criterion

torch.manual_seed(0)
net = Net(6, 4)
criterion = make_criterion("classification")
opt = torch.optim.Adam(net.parameters(), lr=0.01)
for i in range(60):
    x = torch.randn(32, 6)
    opt.zero_grad()
    loss = criterion(net(x), x[:, :4].argmax(1))
    loss.backward()
    opt.step()
print("loss %.4f" % loss.item())
