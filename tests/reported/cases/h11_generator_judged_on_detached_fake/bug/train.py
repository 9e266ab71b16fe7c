import lightning as L
import torch
import torch.nn.functional as F
from networks import Discriminator, Encoder, Generator
from torch.utils.data import DataLoader, TensorDataset


class Image2Reverb(L.LightningModule):
    def __init__(self, g_lr=4e-4, d_lr=2e-4, m_lr=1e-5, l1_lambda=100.0):
        super().__init__()
        self.save_hyperparameters()
        self.automatic_optimization = False
        self.enc = Encoder()
        self.g = Generator()
        self.d = Discriminator()

    def forward(self, label):
        return self.g(self.enc(label))

    def discriminator_step(self, spec, label):
        f = self.enc(label).detach()
        fake_spec = self.g(f)
        d_fake = self.d(fake_spec.detach(), f)
        d_real = self.d(spec, f)
        D_fake = F.mse_loss(d_fake, torch.zeros(d_fake.shape, device=self.device))
        D_real = F.mse_loss(d_real, torch.ones(d_real.shape, device=self.device))
        self.log("D", D_fake + D_real)
        return 0.5 * (D_fake + D_real)

    def generator_step(self, spec, label):
        f = self.enc(label)
        fake_spec = self.g(f)
        d_fake2 = self.d(fake_spec.detach(), f)
        G_loss1 = F.mse_loss(d_fake2, torch.ones(d_fake2.shape, device=self.device))
        G_loss2 = F.l1_loss(fake_spec, spec)
        self.log_dict({"G_GAN": G_loss1, "G_L1": G_loss2})
        return G_loss1 + self.hparams.l1_lambda * G_loss2

    def training_step(self, batch, batch_idx):
        spec, label = batch
        g_optim, d_optim = self.optimizers()

        G_loss = self.generator_step(spec, label)
        g_optim.zero_grad()
        self.manual_backward(G_loss)
        g_optim.step()

        D_loss = self.discriminator_step(spec, label)
        d_optim.zero_grad()
        self.manual_backward(D_loss)
        d_optim.step()

    def configure_optimizers(self):
        g_optim = torch.optim.Adam(
            [{"params": self.g.parameters()}, {"params": self.enc.parameters(), "lr": self.hparams.m_lr}],
            lr=self.hparams.g_lr,
            betas=(0.5, 0.999),
        )
        d_optim = torch.optim.Adam(self.d.parameters(), lr=self.hparams.d_lr, betas=(0.5, 0.999))
        return [g_optim, d_optim], []


def main():
    L.seed_everything(0)
    label = torch.rand(32, 3, 16, 16)
    spec = torch.nn.functional.interpolate(label.mean(1, keepdim=True), (16, 16)) * 2 - 1
    loader = DataLoader(TensorDataset(spec, label), batch_size=8, shuffle=True)
    model = Image2Reverb()
    trainer = L.Trainer(
        max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False
    )
    trainer.fit(model, loader)
    print({k: round(v.item(), 4) for k, v in trainer.callback_metrics.items()})
    return model


if __name__ == "__main__":
    main()
