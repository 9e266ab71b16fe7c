"""Two-task training that reports the cosine between the task gradients every few steps."""
import torch
import torch.nn as nn

torch.set_num_threads(1)
torch.manual_seed(66)
trunk = nn.Sequential(nn.Linear(8, 20), nn.SiLU())
heads = nn.ModuleList([nn.Linear(20, 1), nn.Linear(20, 1)])
params = list(trunk.parameters()) + list(heads.parameters())
opt = torch.optim.Adagrad(params, lr=0.05)


def flat(grads):
    return torch.cat([g.reshape(-1) for g in grads])


def cosine_report(la, lb):
    shared = list(trunk.parameters())
    ga = flat(torch.autograd.grad(la, shared, retain_graph=True))
    gb = flat(torch.autograd.grad(lb, shared))
    return torch.nn.functional.cosine_similarity(ga, gb, dim=0).item()


report = []
swa = None
for step in range(24):
    x = torch.randn(32, 8)
    z = trunk(x)
    z += 0.01
    la = nn.functional.mse_loss(heads[0](z), x[:, :1].exp().clamp(max=3))
    lb = nn.functional.mse_loss(heads[1](z), x[:, 1:2].abs())
    opt.zero_grad()
    (la + lb).backward(retain_graph=True)  # verify: retain-graph-in-loop refuted, says inconclusive
    if step % 3 == 0:
        report.append(cosine_report(la, lb))
    opt.step()
    if swa is not None:
        swa.step()  # verify: step-without-backward not-reached
print([round(r, 2) for r in report])
