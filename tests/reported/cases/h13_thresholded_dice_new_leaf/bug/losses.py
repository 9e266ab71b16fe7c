import functional as F
from torch import nn


class DiceLoss(nn.Module):
    __name__ = "dice_loss"

    def __init__(self, eps=1.0, beta=1.0, activation=None, threshold=None, ignore_channels=None):
        super().__init__()
        self.eps = eps
        self.beta = beta
        self.activation = activation if activation is not None else nn.Identity()
        self.threshold = threshold
        self.ignore_channels = ignore_channels

    def forward(self, y_pr, y_gt):
        y_pr = self.activation(y_pr)
        return 1 - F.f_score(
            y_pr, y_gt, beta=self.beta, eps=self.eps, threshold=self.threshold, ignore_channels=self.ignore_channels
        )


class IoU(nn.Module):
    __name__ = "iou_score"

    def __init__(self, eps=1e-7, threshold=0.5, activation=None):
        super().__init__()
        self.eps, self.threshold = eps, threshold
        self.activation = activation if activation is not None else nn.Identity()

    def forward(self, y_pr, y_gt):
        return F.iou(self.activation(y_pr), y_gt, eps=self.eps, threshold=self.threshold)
