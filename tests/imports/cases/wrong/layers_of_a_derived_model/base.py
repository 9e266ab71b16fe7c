from torch import nn


class BaseModel(nn.Module):
    def count(self):
        return sum(parameter.numel() for parameter in self.parameters())
