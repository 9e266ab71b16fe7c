import torch
import torch.nn as nn
import pytorch_lightning as pl

class Generator(nn.Module):
    def __init__(self, noise_size, size):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(noise_size, 128), nn.LeakyReLU(0.2), nn.Linear(128, size), nn.Tanh())
    def forward(self, z):
        return self.net(z)

class Critic(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(size, 128), nn.LeakyReLU(0.2), nn.Linear(128, 1))
    def forward(self, x):
        return self.net(x.flatten(1))

class WGAN(pl.LightningModule):
    def __init__(self, noise_size=100, size=784, lr=2e-4):
        super().__init__()
        self.save_hyperparameters()
        self.generator = Generator(noise_size, size)
        self.critic = Critic(size)
    def forward(self, z):
        return self.generator(z)
    def training_step(self, batch, batch_idx, optimizer_idx):
        images, _ = batch
        z = torch.randn(images.shape[0], self.hparams.noise_size).type_as(images)
        critic_passes = 5
        if optimizer_idx % critic_passes == 0:
            loss_g = -self.critic(self(z)).mean()
            self.log("loss_g", loss_g)
            return loss_g
        elif optimizer_idx == 1:
            loss_c = self.critic(self(z).detach()).mean() - self.critic(images).mean()
            for p in self.critic.parameters():
                p.data.clamp_(-0.01, 0.01)
            self.log("loss_c", loss_c)
            return loss_c
    def configure_optimizers(self):
        opt_g = torch.optim.RMSprop(self.generator.parameters(), lr=self.hparams.lr)
        opt_d = torch.optim.RMSprop(self.critic.parameters(), lr=self.hparams.lr)
        return opt_g, opt_d
