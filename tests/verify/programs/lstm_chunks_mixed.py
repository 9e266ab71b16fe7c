"""Truncated back-propagation through time for an LSTM on a noisy sine wave."""
import torch
import torch.nn as nn

torch.set_num_threads(1)
torch.manual_seed(28)


class Model(nn.Module):
    def __init__(self, hidden=16):
        super().__init__()
        self.lstm = nn.LSTM(1, hidden, batch_first=True)
        self.fc = nn.Linear(hidden, 1)

    def forward(self, x, state):
        y, state = self.lstm(x, state)
        return self.fc(y), state


def chunks(series, width):
    for s in range(0, series.size(1) - width - 1, width):
        yield series[:, s:s + width], series[:, s + 1:s + width + 1]


class Session:
    state = None
    states = []


phase = torch.rand(6, 1) * 6.28
series = torch.sin(torch.arange(0, 200) * 0.2 + phase).unsqueeze(-1) + 0.05 * torch.randn(6, 200, 1)

model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(2):
    Session.state = None
    for x, y in chunks(series, 14):
        optimizer.zero_grad()
        pred, state = model(x, Session.state)
        loss = nn.functional.mse_loss(pred, y)
        loss.backward(retain_graph=True)  # verify: retain-graph-in-loop confirmed
        optimizer.step()
        Session.state = tuple(s.detach() for s in state)
        Session.states.append(Session.state)
    torch.cuda.empty_cache()  # verify: empty-cache-in-loop refuted
    print(epoch, loss.item(), len(Session.states))
