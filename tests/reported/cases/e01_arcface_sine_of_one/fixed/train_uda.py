import torch
from torch import nn
from torch.nn import functional as F

from losses import MPCL


class SegNet(nn.Module):
    def __init__(self, num_class=4, dim=16):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, dim, 3, padding=1), nn.ReLU(), nn.Conv2d(dim, dim, 3, padding=1))
        self.head = nn.Conv2d(dim, num_class, 1)

    def forward(self, x):
        features = self.body(x)
        return features, self.head(features)


def slices(step, batch=4, size=12):
    generator = torch.Generator().manual_seed(step)
    labels = torch.randint(0, 3, (batch, size, size), generator=generator)
    if step % 10 == 9:
        labels[0, size // 2, size // 2] = 3
    images = labels.unsqueeze(1) * 0.5 + 0.2 * torch.randn(batch, 1, size, size, generator=generator)
    return images, labels


@torch.no_grad()
def update_centers(centers, features, labels, momentum=0.9):
    for c in labels.unique().tolist():
        mean = F.normalize(features[labels == c].mean(dim=0), dim=0)
        known = centers[c].abs().sum() > 0
        centers[c] = momentum * centers[c] + (1 - momentum) * mean if known else mean
    return centers


def train(iterations=40, lambda_mpcl=1.0):
    torch.manual_seed(0)
    model = SegNet()
    mpcl = MPCL()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    centers = torch.zeros(4, 16)
    for step in range(iterations):
        images, labels = slices(step)
        features, logits = model(images)
        features = F.normalize(features.permute(0, 2, 3, 1).reshape(-1, 16), dim=1)
        centers = update_centers(centers, features.detach(), labels.flatten())
        loss_seg = F.cross_entropy(logits, labels)
        loss_mpcl = mpcl(features, labels.flatten(), centers)
        loss = loss_seg + lambda_mpcl * loss_mpcl
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 4:
            print(f"iter {step + 1} loss_seg {loss_seg.item():.4f} loss_mpcl {loss_mpcl.item():.4f}")
    return model


if __name__ == "__main__":
    weights = train().head.weight
    print("weights finite:", torch.isfinite(weights).all().item())
