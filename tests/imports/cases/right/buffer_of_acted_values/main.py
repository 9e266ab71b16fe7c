import torch
from torch import nn
from bandit import Bandit
from actor import Actor

torch.manual_seed(0)
env = Bandit(6)
actor = Actor(6)
opt = torch.optim.Adam(actor.parameters(), lr=0.05)
replay = []
for t in range(60):
    a, q = actor.choose(env.context())
    r = env.pull(a)
    replay.append((env.last, a, r, q))
    ctx, act, rew, _ = zip(*replay[-32:])
    pred = actor(torch.stack(ctx)).gather(1, torch.tensor(act)[:, None]).squeeze(1)
    loss = nn.functional.mse_loss(pred, torch.tensor(rew))
    opt.zero_grad()
    loss.backward()
    opt.step()
print("loss %.4f" % loss.item(), "mean value of what was chosen %.3f" % (sum(float(x[3]) for x in replay) / len(replay)))
