"""Test-time adaptation: evaluation runs without gradients, the inner fit turns them on again."""
import torch
import torch.nn as nn

torch.set_num_threads(1)
torch.manual_seed(61)
ADAPT_STEPS = 5


def entropy(logits):
    p = logits.softmax(-1)
    return -(p * p.clamp_min(1e-8).log()).sum(-1).mean()


@torch.enable_grad()
def adapt(model, opt, x):
    for _ in range(ADAPT_STEPS):
        h = entropy(model(x))
        opt.zero_grad()
        h.backward()
        opt.step()
    return h.detach()


@torch.no_grad()  # verify: training-under-no-grad refuted
def evaluate(model, opt, stream):
    hits, ents = 0, []
    for x, y in stream:
        ents.append(adapt(model, opt, x))
        hits += (model(x).argmax(-1) == y).sum().item()
    return hits, torch.stack(ents)


model = nn.Sequential(nn.Linear(6, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Linear(12, 3))
norm_params = [p for m in model.modules() if isinstance(m, nn.BatchNorm1d) for p in m.parameters()]
opt = torch.optim.SGD(norm_params, lr=0.1)
stream = [(torch.randn(20, 6), torch.randint(0, 3, (20,))) for _ in range(6)]
hits, ents = evaluate(model, opt, stream)
print(hits, "hits; entropy", [round(e, 3) for e in ents.tolist()])
