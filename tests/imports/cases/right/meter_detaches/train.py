import torch, torch.nn.functional as F
from meter import Window

torch.manual_seed(1)
w = torch.zeros(5, 3, requires_grad=True)
opt = torch.optim.SGD([w], lr=0.3)
win = Window(size=20)
for i in range(70):
    x = torch.randn(24, 5)
    y = x[:, :3].argmax(1)
    opt.zero_grad()
    loss = F.cross_entropy(x @ w, y)
    loss.backward()
    opt.step()
    win.push(loss)
    if i % 20 == 19:
        print(i, win)
print("accuracy", ((x @ w).argmax(1) == y).float().mean().item())
