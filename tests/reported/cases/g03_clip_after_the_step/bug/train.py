import torch
import torch.nn.functional as F
from torch import nn

from node_trainer import NodeTrainer


class GraphModel(nn.Module):
    def __init__(self, dim=10, hidden=16, classes=3):
        super().__init__()
        self.enc1 = nn.Linear(dim, hidden)
        self.enc2 = nn.Linear(hidden, hidden)
        self.decoder = nn.Linear(hidden, classes)

    def forward(self, feats, adj):
        h = F.relu(self.enc1(adj @ feats))
        h = F.relu(self.enc2(adj @ h))
        return self.decoder(h)

    def loss(self, feats, adj, labels):
        return F.cross_entropy(self(feats, adj), labels)


def accuracy(model, feats, adj, labels):
    model.eval()
    with torch.no_grad():
        return (model(feats, adj).argmax(1) == labels).float().mean().item()


def random_graph(n=60):
    adj = (torch.rand(n, n) < 0.1).float() + torch.eye(n)
    adj = adj / adj.sum(1, keepdim=True)
    feats = 4 * torch.randn(n, 10)
    labels = (adj @ feats)[:, :3].argmax(1)
    return feats, adj, labels


def main(grad_limit=0.1):
    torch.manual_seed(3)
    graphs = [random_graph() for _ in range(10)]
    trainer = NodeTrainer(GraphModel(), accuracy)
    trainer.make_optimizer(lr=0.2)
    trainer.fit(graphs[:8], 5, val=graphs[8], grad_limit=grad_limit)
    return trainer.net


if __name__ == "__main__":
    main()
