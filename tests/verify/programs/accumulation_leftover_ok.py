"""Gradient accumulation over four micro-batches where the epoch length is not a multiple of four."""
import torch
import torch.nn as nn
from types import SimpleNamespace

torch.set_num_threads(1)
torch.manual_seed(8)
args = SimpleNamespace(accum=4, epochs=8, micro=8, lr=0.05, log=SimpleNamespace(window=[]))

X = torch.randn(80, 7)
Y = torch.sin(X[:, :1])
model = nn.Sequential(nn.Linear(7, 20), nn.Tanh(), nn.Linear(20, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.8)

steps = 0
window = 0.0
for epoch in range(args.epochs):
    order = torch.randperm(80)
    for i, chunk in enumerate(order.split(args.micro)):
        loss = nn.functional.mse_loss(model(X[chunk]), Y[chunk]) / args.accum
        loss.backward()  # verify: missing-zero-grad refuted
        window = window + loss.detach()
        if (i + 1) % args.accum == 0:
            nn.utils.clip_grad_value_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)  # verify: cleared-before-step refuted
            args.log.window.append(window)
            window = 0.0
            steps += 1
    # the two left-over micro-batches simply stay in .grad and join the next epoch
print(steps, "updates; last windows", [round(float(w), 4) for w in args.log.window[-3:]])
