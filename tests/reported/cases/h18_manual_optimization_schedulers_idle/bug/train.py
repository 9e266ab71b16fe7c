import lightning as L
import torch
import torch.nn.functional as F
from modules import MultiPeriodDiscriminator, SynthesizerTrn, discriminator_loss, generator_loss, kl_loss
from torch.optim import AdamW
from torch.optim.lr_scheduler import ExponentialLR
from torch.utils.data import DataLoader, TensorDataset

HPARAMS = {
    "train": {
        "learning_rate": 1e-3, "betas": (0.8, 0.99), "eps": 1e-9, "lr_decay": 0.5, "c_mel": 45.0, "c_kl": 1.0, "batch_size": 8, "epochs": 4,
    }
}


class VitsLightning(L.LightningModule):
    def __init__(self, **hparams):
        super().__init__()
        self.save_hyperparameters(hparams)
        self.automatic_optimization = False
        self.net_g = SynthesizerTrn()
        self.net_d = MultiPeriodDiscriminator()
        self.learning_rate = self.hparams.train["learning_rate"]

    def configure_optimizers(self):
        t = self.hparams.train
        self.optim_g = AdamW(self.net_g.parameters(), self.learning_rate, betas=t["betas"], eps=t["eps"])
        self.optim_d = AdamW(self.net_d.parameters(), self.learning_rate, betas=t["betas"], eps=t["eps"])
        self.scheduler_g = ExponentialLR(self.optim_g, gamma=t["lr_decay"])
        self.scheduler_d = ExponentialLR(self.optim_d, gamma=t["lr_decay"])
        return [self.optim_g, self.optim_d], [self.scheduler_g, self.scheduler_d]

    def training_step(self, batch, batch_idx):
        c, y = batch
        optim_g, optim_d = self.optimizers()

        # Generator
        self.toggle_optimizer(optim_g)
        y_hat, (m, logs) = self.net_g(c)
        _, y_d_hat_g = self.net_d(y, y_hat)
        loss_mel = F.l1_loss(y_hat, y) * self.hparams.train["c_mel"]
        loss_kl = kl_loss(m, logs) * self.hparams.train["c_kl"]
        loss_gen_all = generator_loss(y_d_hat_g) + loss_mel + loss_kl
        self.log_dict({"loss/g/total": loss_gen_all, "loss/g/mel": loss_mel, "loss/g/kl": loss_kl}, prog_bar=True)
        optim_g.zero_grad()
        self.manual_backward(loss_gen_all)
        optim_g.step()
        self.untoggle_optimizer(optim_g)

        # Discriminator
        self.toggle_optimizer(optim_d)
        y_d_hat_r, y_d_hat_g = self.net_d(y, y_hat.detach())
        loss_disc_all = discriminator_loss(y_d_hat_r, y_d_hat_g)
        self.log("loss/d/total", loss_disc_all, prog_bar=True)
        self.log("lr", self.optim_g.param_groups[0]["lr"])
        optim_d.zero_grad()
        self.manual_backward(loss_disc_all)
        optim_d.step()
        self.untoggle_optimizer(optim_d)


def main():
    L.seed_everything(0)
    t = HPARAMS["train"]
    c = torch.randn(32, 16, 16)
    y = torch.tanh(c[:, :1].repeat_interleave(4, dim=2))
    loader = DataLoader(TensorDataset(c, y), batch_size=t["batch_size"], shuffle=True)
    model = VitsLightning(**HPARAMS)
    trainer = L.Trainer(
        max_epochs=t["epochs"], accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, loader)
    print({k: round(v.item(), 5) for k, v in trainer.callback_metrics.items()})
    return model


if __name__ == "__main__":
    main()
