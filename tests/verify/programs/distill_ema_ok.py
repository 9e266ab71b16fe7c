"""Knowledge distillation with an EMA copy of the student for evaluation."""
import copy

import torch
from torch import nn
from torch.nn import functional as F

torch.set_num_threads(1)
torch.manual_seed(19)


def net(width):
    return nn.Sequential(nn.Linear(10, width), nn.ReLU(inplace=True), nn.Linear(width, 5))


class EMA:
    def __init__(self, model, decay=0.95):
        self.shadow = copy.deepcopy(model)
        self.decay = decay

    @torch.no_grad()
    def update(self, model):
        for s, p in zip(self.shadow.parameters(), model.parameters()):
            s.mul_(self.decay).add_(p, alpha=1 - self.decay)  # verify: inplace-on-leaf refuted


teacher, student = net(64), net(12)
ema = EMA(student)
opt = torch.optim.AdamW(student.parameters(), lr=4e-3)
T = 2.0

for step in range(26):
    x = torch.randn(48, 10)
    with torch.no_grad():
        soft = F.softmax(teacher(x) / T, dim=-1)
    logp = F.log_softmax(student(x) / T, dim=-1)
    loss = F.kl_div(logp, soft, reduction="batchmean") * T * T
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    ema.update(student)

with torch.inference_mode():
    x = torch.randn(200, 10)
    agree = (ema.shadow(x).argmax(1) == teacher(x).argmax(1)).float().mean()
print("agreement", agree.item())
