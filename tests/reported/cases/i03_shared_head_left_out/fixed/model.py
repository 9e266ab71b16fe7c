import torch.nn as nn
import torch.nn.functional as F
class SharedHead(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.fc = nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim)
    def forward(self, x):
        return self.norm(x + self.fc(F.gelu(x)))
class TwoTowers(nn.Module):
    def __init__(self, image_dim=2048, text_dim=768, dim=256):
        super().__init__()
        self.image_side = nn.Linear(image_dim, dim)
        self.text_side = nn.Linear(text_dim, dim)
        self.shared_head = SharedHead(dim)
    def forward(self, image, text):
        i = self.shared_head(self.image_side(image))
        t = self.shared_head(self.text_side(text))
        return F.normalize(i, dim=-1) @ F.normalize(t, dim=-1).T
