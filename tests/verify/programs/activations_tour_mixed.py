"""Losses that want probabilities or their logarithms, given these, scores, or one for the other."""
import torch
from torch import nn
from torch.nn import functional as F

torch.set_num_threads(1)
torch.manual_seed(16)

net = nn.Linear(5, 3)
gate = nn.Linear(5, 1)
optimizer = torch.optim.SGD([*net.parameters(), *gate.parameters()], lr=0.01)
negative = nn.NLLLoss()
binary = nn.BCELoss()


class Mixed(nn.Module):
    """Keeps a weight that it moves."""

    def __init__(self):
        super().__init__()
        self.lost = nn.Parameter(torch.ones(3)).double()  # verify: parameter-lost-by-move confirmed
        self.kept = nn.Parameter(torch.ones(3)).to("cpu")  # verify: parameter-lost-by-move inconclusive, on a GPU confirmed


for step in range(6):
    Mixed()
    x, y = torch.randn(12, 5), torch.randint(3, (12,))
    truth = torch.randint(2, (12, 1)).float()
    scores, other = net(x), net(torch.randn(12, 5)).softmax(1).detach()
    optimizer.zero_grad()
    loss = negative(scores, y)  # verify: loss-without-activation confirmed, unseen by the linter
    loss = loss + negative(scores.log_softmax(1), y)  # verify: loss-without-activation refuted
    loss = loss + F.nll_loss(scores.softmax(1), y)  # verify: loss-without-activation confirmed
    loss = loss + F.nll_loss(-scores.abs(), y)  # verify: loss-without-activation confirmed, unseen by the linter, says inconclusive
    loss = loss + binary(gate(x).sigmoid(), truth)  # verify: loss-without-activation refuted
    try:
        loss = loss + binary(gate(x) * 3, truth)  # verify: loss-without-activation confirmed, unseen by the linter
    except RuntimeError as error:
        print(str(error)[:50])
    loss = loss + F.kl_div(scores.softmax(1), other)  # verify: kl-div-input confirmed
    loss = loss + F.kl_div(scores.log_softmax(1), other.log())  # verify: kl-div-input confirmed, unseen by the linter
    loss = loss + F.kl_div(scores.log_softmax(1), other)  # verify: kl-div-input refuted
    loss = loss + F.kl_div(scores.log_softmax(1), other.log(), log_target=True)  # verify: kl-div-input refuted
    loss.backward()
    optimizer.step()
