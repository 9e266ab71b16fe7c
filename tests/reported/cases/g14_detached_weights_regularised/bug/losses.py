import torch
from torch import nn


class WeightPenalty(nn.Module):
    def __init__(self, threshold=0.02):
        super().__init__()
        self.threshold = threshold

    def forward(self, weights):
        return torch.relu(self.threshold - weights).pow(2).mean() * 1e4


class AllLosses(nn.Module):
    def __init__(self, opt):
        super().__init__()
        self.opt = opt
        self.weight_penalty = WeightPenalty()
        self.loss = {}

    def forward(self, inputs, outputs):
        self.loss = {"FIT": (outputs["moved"] - inputs["target"]).pow(2).sum(-1).mean()}
        self.loss["CAGE"] = 0.01 * (outputs["cage"].norm(dim=-1) - 1.5).pow(2).mean()
        if self.opt["mvc_weight"] > 0:
            self.loss["COORD"] = self.weight_penalty(outputs["weight"]) * self.opt["mvc_weight"]
        return self.loss
