"""Passes in eval mode, with graphs that are used after all, or by nobody: attacks, generation, a GAN, a regression."""
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(11)

model = nn.Sequential(nn.Linear(4, 16), nn.Dropout(0.1), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters())
recurrent = nn.GRU(4, 8, batch_first=True)
critic = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))
critic_optimizer = torch.optim.Adam(critic.parameters())


def train():
    model.train()
    for _ in range(4):
        x = torch.randn(16, 4)
        optimizer.zero_grad()
        (model(x) - x.sum(1, keepdim=True)).pow(2).mean().backward()
        optimizer.step()


def adversarial():
    model.eval()
    total = 0.0
    for _ in range(4):
        x = torch.randn(8, 4, requires_grad=True)
        out = model(x)  # verify: evaluation-with-grad refuted
        out.sum().backward()
        total += x.grad.abs().mean().item()
    return total


def report():
    model.eval()
    total, worst = 0.0, []
    for _ in range(4):
        out = model(torch.randn(8, 4))  # verify: evaluation-with-grad confirmed
        total += out.mean().item()
        worst.append(out.min().data)
    return total, worst


def generate():
    recurrent.eval()
    x, state = torch.randn(1, 1, 4), None
    for _ in range(6):
        x, state = recurrent(x, state)  # verify: evaluation-with-grad confirmed
        x = x[..., :4]
    return x.sum().item()


def lookahead():
    """Sums up what it computes in eval mode, and goes backward in the end."""
    model.eval()
    loss = 0
    for _ in range(4):
        loss = loss + model(torch.randn(8, 4)).pow(2).mean()  # verify: evaluation-with-grad refuted
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def half_used():
    """Only every other pass goes backward."""
    model.eval()
    for index in range(4):
        x = torch.randn(8, 4, requires_grad=True)
        out = model(x)  # verify: evaluation-with-grad inconclusive
        if index % 2:
            out.sum().backward()


def fool():
    """The critic is in eval mode while another model learns from it, and not while it learns itself."""
    critic.eval()  # verify: training-in-eval-mode refuted
    optimizer.zero_grad()
    critic(model(torch.randn(8, 4)).expand(8, 4)).mean().backward()
    optimizer.step()
    critic.train()
    critic_optimizer.zero_grad()
    critic(torch.randn(8, 4)).mean().backward()
    critic_optimizer.step()


for _ in range(3):
    train()
    adversarial()
    report()
    generate()
    lookahead()
    half_used()
    fool()
