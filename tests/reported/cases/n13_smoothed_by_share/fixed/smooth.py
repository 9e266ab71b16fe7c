import torch
import torch.nn as nn
import torch.nn.functional as F


def soft_cross_entropy(input, target, size_average=True):
    logs = F.log_softmax(input, dim=1)
    if size_average:
        return torch.mean(torch.sum(-target * logs, dim=1))
    return torch.sum(torch.sum(-target * logs, dim=1))


class SmoothCrossEntropyLoss(nn.Module):
    def __init__(self, label_smoothing=0.0, size_average=True):
        super().__init__()
        self.label_smoothing = label_smoothing
        self.size_average = size_average

    def forward(self, input, target):
        if len(target.size()) == 1:
            target = F.one_hot(target, num_classes=input.size(-1)).float()
        if self.label_smoothing > 0.0:
            s_by_c = self.label_smoothing / len(input[0])
            smooth = torch.zeros_like(target)
            smooth = smooth + s_by_c
            target = target * (1.0 - self.label_smoothing) + smooth
        return soft_cross_entropy(input, target, self.size_average)


def train():
    net = nn.Sequential(nn.Flatten(), nn.Linear(48, 32), nn.ReLU(), nn.Linear(32, 7))
    criterion = SmoothCrossEntropyLoss(label_smoothing=0.1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for _ in range(30):
        x, y = torch.randn(16, 3, 4, 4), torch.randint(0, 7, (16,))
        optimizer.zero_grad()
        loss = criterion(net(x), y)
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    train()
