import math

import torch
from torch import nn
from torch.nn import functional as F


class MPCL(nn.Module):
    def __init__(self, num_class=4, temperature=0.1, m=0.4, base_temperature=1.0, easy_margin=False):
        super().__init__()
        self.num_class = num_class
        self.temperature = temperature
        self.base_temperature = base_temperature
        self.easy_margin = easy_margin
        self.cos_m = math.cos(m)
        self.sin_m = math.sin(m)
        self.th = math.cos(math.pi - m)
        self.mm = math.sin(math.pi - m) * m

    def forward(self, features, labels, class_centers):
        cosine = features @ F.normalize(class_centers, dim=1).t()
        sine = torch.sqrt((1.0 - torch.pow(cosine, 2)).clamp(0.0001, 1.0))
        phi = cosine * self.cos_m - sine * self.sin_m
        if self.easy_margin:
            phi = torch.where(cosine > 0, phi, cosine)
        else:
            phi = torch.where(cosine > self.th, phi, cosine - self.mm)
        one_hot = F.one_hot(labels, self.num_class).float()
        logits = (one_hot * phi + (1 - one_hot) * cosine) / self.temperature
        log_prob = F.log_softmax(logits, dim=1)
        return -(self.temperature / self.base_temperature) * (one_hot * log_prob).sum(dim=1).mean()
