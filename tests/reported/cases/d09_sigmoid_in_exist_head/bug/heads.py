import torch
import torch.nn.functional as F
from torch import nn

HEADS = {}


def register(cls):
    HEADS[cls.__name__] = cls
    return cls


@register
class PlainSegmenter(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.conv = nn.Conv2d(cfg["channels"], cfg["lanes"] + 1, 1)

    def forward(self, x):
        return {"seg": F.interpolate(self.conv(x), scale_factor=2, mode="bilinear", align_corners=False)}


@register
class LaneExist(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.reduce = nn.Conv2d(cfg["channels"], cfg["lanes"] + 1, 1)
        self.fc1 = nn.Linear((cfg["lanes"] + 1) * (cfg["size"] // 4) ** 2, 64)
        self.fc2 = nn.Linear(64, cfg["lanes"])

    def forward(self, x):
        x = F.avg_pool2d(F.softmax(self.reduce(x), dim=1), 2)
        x = F.relu(self.fc1(x.flatten(1)))
        x = self.fc2(x)
        x = torch.sigmoid(x)
        return {"exist": x}
