"""A parameter that is loaded is not a number."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
state = net.state_dict()
state = {k: v.clone() for k, v in state.items()}
state["2.weight"][1, 3] = float("nan")
net.load_state_dict(state)  # seen: nonfinite-value (was loaded with values)
opt = torch.optim.Adam(net.parameters(), lr=0.001)
for step in range(20):
    x, y = torch.randn(8, 4), torch.randint(0, 3, (8,))
    loss = F.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
