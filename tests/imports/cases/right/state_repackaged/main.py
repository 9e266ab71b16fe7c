import torch
from torch import nn
from rnn import Echo, fresh

torch.manual_seed(0)
net = Echo(hidden=16)
opt = torch.optim.Adam(net.parameters(), lr=0.01)
stream = torch.randint(2, (8, 400)).float()
state = net.start(8)
states = []
for t in range(0, 380, 10):
    x = stream[:, t:t + 10, None]
    y = stream[:, max(t - 2, 0):max(t - 2, 0) + 10, None]
    state = fresh(state)
    out, state = net(x, state)
    loss = nn.functional.binary_cross_entropy_with_logits(out, y)
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    opt.step()
    states.append(fresh(state))
    if t % 100 == 0:
        print(t, "%.4f" % loss.item())
print("kept", len(states), "end %.4f" % loss.item())
