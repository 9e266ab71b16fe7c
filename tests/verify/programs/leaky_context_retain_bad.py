"""An online model with a leaky context vector that is carried from batch to batch."""
import torch
from torch import nn


class ContextModel(nn.Module):
    def __init__(self, inputs=6, dim=16, leak=0.9):
        super().__init__()
        self.encode = nn.Linear(inputs, dim)
        self.readout = nn.Linear(dim, 1)
        self.leak = leak
        self.context = None

    def reset(self, batch):
        self.context = torch.zeros(batch, self.readout.in_features)

    def forward(self, x):
        self.context = self.leak * self.context + (1 - self.leak) * self.encode(x)
        return self.readout(self.context)


def run(steps=32, batch=8):
    model = ContextModel()
    model.reset(batch)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
    teacher = torch.randn(6, 1)
    trace = torch.zeros(batch, 1)
    for step in range(steps):
        x = torch.randn(batch, 6)
        trace = 0.9 * trace + 0.1 * (x @ teacher)
        with torch.no_grad():
            target = trace.clone()
        loss = ((model(x) - target) ** 2).mean()
        optimizer.zero_grad()
        # without this the second step fails: "Trying to backward through the graph a second time"
        loss.backward(retain_graph=True)  # verify: retain-graph-in-loop confirmed
        optimizer.step()
        torch.cuda.empty_cache()  # verify: empty-cache-in-loop inconclusive
        if step % 8 == 0:
            print(f"step {step}: {loss.item():.4f}")


if __name__ == "__main__":
    torch.manual_seed(10)
    run()
