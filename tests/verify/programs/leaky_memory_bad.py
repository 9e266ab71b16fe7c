"""Leaky-integrator memory over a data stream, read out by a linear probe at each step."""
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(44)


class Leaky(nn.Module):
    def __init__(self, d_in, d_mem, keep=0.8):
        super().__init__()
        self.write = nn.Linear(d_in, d_mem)
        self.read = nn.Linear(d_mem, 1)
        self.keep = keep
        self.mem = None

    def forward(self, x):
        update = torch.tanh(self.write(x))
        self.mem = update if self.mem is None else self.keep * self.mem + update
        return self.read(self.mem)


def stream(n, batch=4):
    state = torch.zeros(batch, 1)
    for _ in range(n):
        x = torch.randn(batch, 3)
        state = 0.8 * state + x[:, :1]
        yield x, state


net = Leaky(3, 10)
opt = torch.optim.SGD(net.parameters(), lr=5e-3)
bad_batches = 0
for t, (x, y) in enumerate(stream(30)):
    loss = (net(x) - y).abs().mean()
    opt.zero_grad()
    try:
        # "Trying to backward through the graph a second time" without the flag
        loss.backward(retain_graph=True)  # verify: retain-graph-in-loop confirmed
    except FloatingPointError:
        opt.zero_grad()  # verify: cleared-before-step not-reached
        bad_batches += 1
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    opt.step()
    if t % 10 == 9:
        print(t, loss.item(), bad_batches)
