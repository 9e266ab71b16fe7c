import torch
import torch.nn as nn
import torch.nn.functional as F


class BinaryDiceLoss(nn.Module):
    def __init__(self, smooth=1e-5):
        super().__init__()
        self.smooth = smooth

    def forward(self, output, target):
        assert output.size() == target.size()
        output = output.reshape(output.size(0), -1)
        target = target.reshape(target.size(0), -1).float()
        overlap = (output * target).sum(1)
        sizes = output.sum(1) + target.sum(1)
        dice = (2 * overlap + self.smooth) / (sizes + self.smooth)
        return (1 - dice).mean()


class DiceLoss(nn.Module):
    def __init__(self, weights=None, ignore=None):
        super().__init__()
        self.weights = weights
        self.ignore = ignore

    def forward(self, output, target):
        one_hot = F.one_hot(target, output.size(1)).movedim(-1, 1)
        output = F.softmax(output, dim=1)
        dice = BinaryDiceLoss()
        total = 0.0
        for i in range(output.size(1)):
            if i == self.ignore:
                continue
            part = dice(output[:, i], one_hot[:, i])
            if self.weights is not None:
                part = part * self.weights[i]
            total = total + part
        return total / output.size(1)
