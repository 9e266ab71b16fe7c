"""Message passing on a random graph, with scatter-style aggregation and an in-place residual."""
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(72)
N, EDGES = 24, 80


class Conv(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.msg = nn.Linear(d, d)
        self.norm = nn.LayerNorm(d)

    def forward(self, h, src, dst):
        m = torch.relu(self.msg(h[src]))
        agg = h.new_zeros(h.shape)
        agg.index_add_(0, dst, m)  # verify: inplace-on-saved-tensor refuted
        out = self.norm(agg)
        out += h  # verify: inplace-on-saved-tensor refuted
        return out


class GNN(nn.Module):
    def __init__(self, d=10, depth=2):
        super().__init__()
        self.embed = nn.Parameter(torch.randn(N, d) * 0.3)
        self.convs = nn.ModuleList(Conv(d) for _ in range(depth))
        self.out = nn.Linear(d, 2)

    def forward(self, src, dst):
        h = self.embed
        for conv in self.convs:
            h = conv(h, src, dst)
        return self.out(h)


def main():
    src, dst = torch.randint(0, N, (2, EDGES))
    labels = torch.arange(N) % 2
    gnn = GNN()
    opt = torch.optim.Adam(gnn.parameters(), lr=1e-2, weight_decay=5e-4)
    for epoch in range(25):
        opt.zero_grad()
        loss = nn.functional.cross_entropy(gnn(src, dst), labels)
        loss.backward()
        opt.step()
        if not torch.isfinite(loss):
            torch.autograd.set_detect_anomaly(True)  # verify: anomaly-detection-left-on not-reached
    print("accuracy", (gnn(src, dst).argmax(1) == labels).float().mean().item())


main()
