"""Class-incremental toy: a new head is added for every task with add_param_group."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(9)


class Incremental(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(10, 20), nn.ReLU())
        self.heads = nn.ModuleList()

    def grow(self):
        head = nn.Linear(20, 2)
        self.heads.append(head)
        return head

    def forward(self, x, k):
        return self.heads[k](self.body(x))


model = Incremental()
model.grow()
opt = torch.optim.SGD(model.parameters(), lr=0.05)
to_clear = [p for p in model.parameters()]  # taken once, before the model grows

for task in range(3):
    if task > 0:
        opt.add_param_group({"params": model.grow().parameters(), "lr": 0.1})
    for it in range(10):
        for p in to_clear:
            p.grad = None
        x = torch.randn(24, 10) + task
        y = (x[:, task] > task).long()
        loss = F.cross_entropy(model(x, task), y)
        loss.backward()  # verify: missing-zero-grad confirmed, unseen by the linter
        opt.step()
    print("task", task, "loss", loss.item())
