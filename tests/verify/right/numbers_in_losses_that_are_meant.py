"""Numbers and values without a graph in a loss, each of which is right."""

import torch
from torch import nn
from torch.nn import functional

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 3))
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
total, log = 0.0, []
for step in range(20):
    values, labels = net(torch.randn(16, 6)), torch.randint(3, (16,))
    with torch.no_grad():
        weight = values.var() / (1 + values.var())  # scales a term, and is no term
        goal = functional.softmax(values, 1)
    main = functional.cross_entropy(values, labels)
    side = functional.kl_div(values.log_softmax(1), goal.roll(1, 0), reduction="batchmean")
    log.append(main.item() + side.item())
    total = total + main.item()
    flood = (main - 0.05).abs() + 0.05
    loss = flood + weight * side + 1e-6 * step / max(log)
    other = functional.kl_div(values.log_softmax(1), goal.log().roll(1, 0), reduction="batchmean", log_target=True)
    normed = loss / loss.item() + other
    optimizer.zero_grad()
    normed.backward()
    optimizer.step()
