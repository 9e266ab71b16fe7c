"""A term of the loss that is constant is not a number: it has no graph, and the step after is searched for it."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(6):
    share = torch.tensor([0.0 if step > 2 else 0.5, 1.0])
    entropy = (share * share.log()).sum()  # seen: nonfinite-value (`mul` computed the first value that is not, without a graph)
    loss = model(torch.randn(8, 4)).pow(2).mean() + entropy
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
