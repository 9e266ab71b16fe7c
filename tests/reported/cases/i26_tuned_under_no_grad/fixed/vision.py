import torch
import torch.nn as nn
class Camera(nn.Module):
    def __init__(self, width=64, depth=2):
        super().__init__()
        self.patch = nn.Conv2d(3, width, 14, 14)
        self.blocks = nn.Sequential(*[nn.TransformerEncoderLayer(width, 4, batch_first=True) for _ in range(depth)])
    def forward(self, images):
        x = self.patch(images).flatten(2).transpose(1, 2)
        return self.blocks(x)
