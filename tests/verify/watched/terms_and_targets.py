"""Terms that count for nothing, targets that follow the trained network, and odd inputs of losses."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

torch.manual_seed(0)


def train(module, loss_of, steps=3):
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01)
    for _ in range(steps):
        loss = loss_of(torch.randn(16, 8))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def zero_term():
    net = nn.Linear(8, 4)

    def loss_of(x):
        out = net(x)
        gap = F.relu(out.softmax(1).sum(1) - 2).mean()  # seen: zero-loss-term (20 of 20)
        return F.cross_entropy(out, x[:, :4].argmax(1)) + gap

    train(net, loss_of, 20)


def sigmoid_by_hand():
    net = nn.Linear(8, 1)

    def loss_of(x):
        chance = 1 / (1 + torch.exp(-net(x)))
        return F.binary_cross_entropy_with_logits(chance, (x[:, :1] > 0).float())  # seen: sigmoid-before-bce-with-logits

    train(net, loss_of)


def class_without_samples():
    net = nn.Linear(8, 4)
    labels = torch.arange(90) % 3
    weights = len(labels) / torch.bincount(labels, minlength=4)
    criterion = nn.CrossEntropyLoss(weight=weights / weights.mean())  # seen: class-weights-not-finite
    train(net, lambda x: criterion(net(x), labels[:16]))


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.out = nn.Embedding(9, 8), nn.Linear(8, 9)

    def forward(self, words):
        return self.out(self.words(words))


def padding():
    net = Tagger()

    def loss_of(_):
        rows = [torch.randint(1, 9, (length,)) for length in (3, 5, 7, 12)]
        rows = pad_sequence(rows, batch_first=True)
        scores = net(rows[:, :-1])
        return F.cross_entropy(scores.reshape(-1, 9), rows[:, 1:].reshape(-1))  # seen: padding-in-targets (%)

    train(net, loss_of)


def followed_goal():
    online, target = nn.Linear(8, 3), nn.Linear(8, 3)
    target.load_state_dict(online.state_dict())

    def loss_of(x):
        after = torch.randn(16, 8)
        best = torch.minimum(online(after).amax(1), target(after).amax(1))
        goal = x[:, 0] + 0.9 * best  # seen: gradient-through-target (2 parameters)
        return F.smooth_l1_loss(online(x)[:, 0], goal)

    train(online, loss_of, 4)


def written_into_itself():
    class Pair:
        def __init__(self, net):
            self.online = self.slow = net

    pair = Pair(nn.Linear(8, 4))
    for mine, its in zip(pair.slow.parameters(), pair.online.parameters()):
        mine.data.copy_(its.data)  # seen: aliased-network (themselves)
    train(pair.online, lambda x: F.mse_loss(pair.online(x), x[:, :4]))


def averaged_with_itself():
    online = nn.Linear(8, 4)
    slow = online  # seen: aliased-network (themselves)
    with torch.no_grad():
        for mine, its in zip(slow.parameters(), online.parameters()):
            mine.mul_(0.9).add_(its, alpha=0.1)
    train(online, lambda x: F.mse_loss(online(x), x[:, :4]))


sigmoid_by_hand()
class_without_samples()
padding()
followed_goal()
written_into_itself()
averaged_with_itself()
zero_term()
