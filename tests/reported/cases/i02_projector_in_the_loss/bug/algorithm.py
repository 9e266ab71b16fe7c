import pytorch_lightning as pl
import torch
import torch.nn as nn
import torch.nn.functional as F
from losses import AlignmentLoss

class Denoiser(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(dim, dim) for _ in range(2)])
        self.out = nn.Linear(dim, dim)
    def forward(self, x):
        hidden = []
        for block in self.blocks:
            x = F.silu(block(x))
            hidden.append(x)
        return self.out(x), hidden

class Aligned(pl.LightningModule):
    def __init__(self, dim=64, teacher_dim=32, lr=1e-4):
        super().__init__()
        self.lr = lr
        self.denoiser = Denoiser(dim)
        self.alignment = AlignmentLoss(dim, teacher_dim)
    def training_step(self, batch, batch_idx):
        x, noise, teacher = batch
        pred, hidden = self.denoiser(x + noise)
        loss = F.mse_loss(pred, noise) + 0.5 * self.alignment(hidden, teacher)
        self.log("loss", loss)
        return loss
    def configure_optimizers(self):
        return torch.optim.AdamW(self.denoiser.parameters(), lr=self.lr)
