"""Programs that raise, or whose own `assert` fails; after the fixes they come to their end.

Where a fix would only keep the error away there is none: `# no fix`.
"""

import copy

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import SGD

# -- changes in place ---------------------------------------------------------------------------------------


def augmented(model, batches):
    for x, y in batches:
        hidden = model(x).exp()
        expected = hidden.detach() + 1
        hidden += 1
        assert torch.equal(hidden.detach(), expected)
        F.mse_loss(hidden, y).backward()


def on_a_condition(model, batches):
    for i, (x, y) in enumerate(batches):
        hidden = torch.tanh(model(x))
        if i % 2:
            hidden *= 2
        F.mse_loss(hidden, y).backward()


def element_by_element(model, batches):
    for x, y in batches:
        hidden = torch.tanh(model(x))
        for i in range(2):
            hidden[i] = 0
        assert not hidden[:2].any()
        F.mse_loss(hidden, y).backward()


def of_a_list(model, batches):  # no fix
    for x, y in batches:
        hidden = [torch.tanh(model(x)), torch.tanh(model(x))]
        for part in hidden:
            part += 1
        F.mse_loss(sum(hidden), y).backward()
        assert all(part.min() >= 0 for part in hidden)


def by_another_name(model, batches):  # no fix
    for x, y in batches:
        hidden = torch.tanh(model(x))
        same = hidden
        same += 1
        F.mse_loss(hidden, y).backward()


class Activated(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(3, 4), nn.Linear(4, 1)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        x = torch.sigmoid(self.inner(x))
        x = self.relu(x)
        return self.outer(x)


def layer_in_place(batches):
    network = Activated()
    for x, y in batches:
        F.mse_loss(network(x), y).backward()


def parameter_by_hand(batches):
    w = torch.zeros(3, 1, requires_grad=True)
    for x, y in batches:
        F.mse_loss(x @ w, y).backward()
        w -= 0.01 * w.grad
        w.grad.zero_()


# -- graphs -------------------------------------------------------------------------------------------------


def two_losses(model, batches):
    optimizer = SGD(model.parameters(), lr=0.01)
    for x, y in batches:
        optimizer.zero_grad()
        out = model(x)
        one = F.mse_loss(out, y)
        two = F.l1_loss(out, y)
        one.backward()
        two.backward()
        optimizer.step()


def not_reduced():
    network, x, y = nn.Linear(3, 2), torch.randn(16, 3), torch.randint(0, 2, (16,))
    optimizer = SGD(network.parameters(), lr=0.01)
    loss = F.cross_entropy(network(x), y, reduction="none")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def carried_state(batches):
    network, head = nn.GRU(3, 4), nn.Linear(4, 1)
    optimizer = SGD(network.parameters(), lr=0.01)
    state = None
    for x, y in batches:
        out, state = network(x, state)
        loss = F.mse_loss(head(out), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@torch.no_grad()
def decorated(model, batches):
    optimizer = SGD(model.parameters(), lr=0.01)
    for x, y in batches:
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimizer.step()


def nothing_detached(batches):
    maker, judge = nn.Linear(3, 3), nn.Linear(3, 1)
    for x, _ in batches:
        made = torch.tanh(maker(x))
        made.detach()
        judge(made).mean().backward()
        assert maker.weight.grad is None


def nothing_clamped(batches):
    network = nn.Linear(3, 1)
    for x, y in batches:
        out = network(x) * 100
        out.clamp(-1, 1)
        assert out.abs().max() <= 1
        F.mse_loss(out, y).backward()


# -- weights ------------------------------------------------------------------------------------------------


def best_of_all(model, batches):
    optimizer = SGD(model.parameters(), lr=0.01)
    best, most = None, -100
    for i, (x, y) in enumerate(batches):
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimizer.step()
        quality = -abs(i - 3)
        if quality > most:
            most = quality
            best = model.state_dict()
            expected = [parameter.sum().item() for parameter in model.parameters()]
    model.load_state_dict(best)
    assert [parameter.sum().item() for parameter in model.parameters()] == expected


def none_is_better(model, batches):
    optimizer = SGD(model.parameters(), lr=0.01)
    expected, least = copy.deepcopy(list(model.parameters())), 0.0
    best = model.state_dict()
    for x, y in batches:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        if loss.item() < least:
            least = loss.item()
            best = model.state_dict()
    model.load_state_dict(best)
    assert all(map(torch.equal, model.parameters(), expected))


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(3, 3) for _ in range(2)]
        self.heads = {"a": nn.Linear(3, 1), "b": nn.Linear(3, 1)}

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.heads["a"](x) + self.heads["b"](x)


def layers_in_a_list(batches):
    network = Stack()
    assert len(list(network.parameters())) == 8
    for x, y in batches:
        F.mse_loss(network(x), y).backward()


class Late(nn.Module):
    def __init__(self):
        self.layer = nn.Linear(3, 1)
        super().__init__()

    def forward(self, x):
        return self.layer(x)


def initialized_late(batches):
    network = Late()
    for x, y in batches:
        F.mse_loss(network(x), y).backward()


class Scaled(nn.Module):
    def __init__(self, dtype):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1)).to(dtype)

    def forward(self, x):
        return x.mean(dim=1, keepdim=True).to(self.scale.dtype) * self.scale


def parameter_that_is_moved(batches):
    network = Scaled(torch.float64)
    assert len(list(network.parameters())) == 1
    for x, y in batches:
        F.mse_loss(network(x), y.double()).backward()


def frozen_by_a_typo(model, batches):
    for parameter in model[0].parameters():
        parameter.require_grad = False
    for x, y in batches:
        F.mse_loss(model(x), y).backward()
        assert model[0].weight.grad is None


# -- modules and functions ----------------------------------------------------------------------------------


class Dropping(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 1)

    def forward(self, x):
        return self.linear(F.dropout(x, 0.5))


def drops_in_evaluation(batches):
    network = Dropping().eval()
    for x, _ in batches:
        assert torch.equal(network(x), network(x))


class Times(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor: float):
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.factor


def own_function(model, batches):
    for x, y in batches:
        F.mse_loss(Times.apply(model(x), 2.0), y).backward()


def not_called(model, batches):
    optimizer = SGD(model.parameters(), lr=0.01)
    before = copy.deepcopy(list(model.parameters()))
    for x, y in batches:
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimizer.step
    assert not any(map(torch.equal, model.parameters(), before))


def not_entered(model, batches):
    with torch.no_grad:
        for x, _ in batches:
            assert model(x).grad_fn is None


def logarithms(model, batches):
    for x, y in batches:
        scores = torch.cat([model(x) * 1000, -model(x) * 1000], dim=1)
        assert torch.log(F.softmax(scores, dim=1)).isfinite().all()
        F.mse_loss(model(x), y).backward()


def activated_twice(batches):
    network = nn.Linear(3, 2)
    for x, _ in batches:
        target = torch.zeros(len(x), dtype=torch.long)
        logits = network(x)
        expected = F.nll_loss(F.log_softmax(logits, dim=1), target)
        assert torch.allclose(F.cross_entropy(F.softmax(logits, dim=1), target), expected)


def evaluated_with_graphs(model, batches):
    model.eval()
    outputs = []
    for x, _ in batches:
        out = model(x)
        outputs.append(out)
    assert not any(out.requires_grad for out in outputs)
