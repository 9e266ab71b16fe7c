import torch
import torch.nn as nn
import torch.nn.functional as F


class FocalLoss(nn.Module):
    def __init__(self, gamma=2, alpha=None, reduction="mean", task_type="binary"):
        super().__init__()
        self.gamma, self.alpha, self.reduction = gamma, alpha, reduction
        self.task_type = task_type

    def forward(self, inputs, targets):
        if self.task_type == "binary":
            return self.binary_focal_loss(inputs, targets)
        if self.task_type == "multi-class":
            return self.multi_class_focal_loss(inputs, targets)
        raise ValueError(self.task_type)

    def binary_focal_loss(self, inputs, targets):
        probs = torch.sigmoid(inputs)
        targets = targets.float()
        bce_loss = F.binary_cross_entropy_with_logits(inputs, targets, reduction="none")
        p_t = probs * targets + (1 - probs) * (1 - targets)
        loss = (1 - p_t) ** self.gamma * bce_loss
        if self.alpha is not None:
            loss = (self.alpha * targets + (1 - self.alpha) * (1 - targets)) * loss
        return self.reduce(loss)

    def multi_class_focal_loss(self, inputs, targets):
        logs = F.log_softmax(inputs, dim=1).gather(1, targets[:, None]).squeeze(1)
        return self.reduce(-((1 - logs.exp()) ** self.gamma) * logs)

    def reduce(self, loss):
        if self.reduction == "mean":
            return loss.mean()
        return loss.sum() if self.reduction == "sum" else loss


def main():
    net = nn.Linear(12, 1)
    criterion = FocalLoss(alpha=0.25)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for _ in range(40):
        x, y = torch.randn(32, 12), torch.randint(0, 2, (32,))
        loss = criterion(net(x).squeeze(1), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
