"""Prototype classifier: class centres are parameters, normalised before the similarity."""
import torch
from torch import nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(90)
K, D = 4, 8


class Prototypes(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(5, D)
        self.centres = nn.Parameter(torch.randn(K, D))

    def unit_centres(self):
        with torch.no_grad():  # verify: training-under-no-grad confirmed, unseen by the linter
            return F.normalize(self.centres, dim=1)  # verify: training-under-no-grad confirmed

    def nudge(self, k, z):
        self.centres[k] += 0.1 * z.mean(0).detach()  # verify: inplace-on-leaf confirmed

    def forward(self, x):
        return F.normalize(self.embed(x), dim=1) @ self.unit_centres().t() * 5


def warm_start(model, x, y):
    for k in range(K):
        try:
            model.nudge(k, model.embed(x[y == k]))
        except RuntimeError:
            print("could not move prototype", k)
            break


model = Prototypes()
means = torch.randn(K, 5) * 2
labels = torch.arange(K).repeat(10)
points = means[labels] + torch.randn(40, 5)
warm_start(model, points, labels)

opt = torch.optim.SGD(
    [{"params": [model.centres], "lr": 0.1}, {"params": model.embed.parameters()}], lr=0.05, momentum=0.9
)
for epoch in range(18):
    loss = F.cross_entropy(model(points), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
print("loss", loss.item())
