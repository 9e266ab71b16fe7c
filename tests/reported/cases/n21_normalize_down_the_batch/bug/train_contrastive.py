import torch
import torch.nn.functional as F

from loss_fn import SupConLoss
from models import Encoder, ProjectionHead


def train_contrastive(train_loader, epochs=2):
    model, head = Encoder(), ProjectionHead()
    optimizer = torch.optim.AdamW([*model.parameters(), *head.parameters()], lr=1e-3)
    criterion = SupConLoss()
    for _ in range(epochs):
        model.train()
        head.train()
        for x, label in train_loader:
            optimizer.zero_grad()
            y_rep = model(x)
            y_rep = F.normalize(y_rep, dim=0)
            y_proj = head(y_rep)
            y_proj = F.normalize(y_proj, dim=0)
            loss = criterion(y_proj, label)
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    train_contrastive([(torch.randn(16, 1, 32, 32), torch.randint(0, 5, (16,))) for _ in range(4)])
