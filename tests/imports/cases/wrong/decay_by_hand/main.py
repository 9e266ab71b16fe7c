import torch
from decay import shrink

torch.manual_seed(0)
coef = torch.zeros(10, requires_grad=True)
opt = torch.optim.SGD([coef], lr=0.05)
truth = torch.tensor([3.0, -2, 0, 0, 0, 1, 0, 0, 0, 0])
for i in range(60):
    x = torch.randn(32, 10)
    loss = (x @ coef - x @ truth).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    shrink(coef, 0.01)
print([round(c, 2) for c in coef.tolist()])
