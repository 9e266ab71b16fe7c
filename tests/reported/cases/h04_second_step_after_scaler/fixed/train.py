import torch
import torch.nn.functional as F
from torch import nn
from torch.amp import GradScaler, autocast
from torch.utils.data import DataLoader, TensorDataset


class HParams:
    learning_rate = 1e-2
    lr_decay = 0.99
    betas = (0.8, 0.99)
    c_mel = 45.0
    epochs = 2
    batch_size = 8
    fp16_run = True


class Synthesizer(nn.Module):
    def __init__(self, phone=16, mel=40):
        super().__init__()
        self.enc_p = nn.Conv1d(phone, 32, 3, padding=1)
        self.dec = nn.Sequential(nn.LeakyReLU(0.1), nn.Conv1d(32, 32, 3, padding=1), nn.LeakyReLU(0.1), nn.Conv1d(32, mel, 1))

    def forward(self, phone):
        return self.dec(self.enc_p(phone))


class PeriodDiscriminator(nn.Module):
    def __init__(self, mel=40):
        super().__init__()
        self.convs = nn.ModuleList([nn.Conv1d(mel, 32, 5, 2, 2), nn.Conv1d(32, 32, 5, 2, 2)])
        self.conv_post = nn.Conv1d(32, 1, 3, 1, 1)

    def forward(self, x):
        for conv in self.convs:
            x = F.leaky_relu(conv(x), 0.1)
        return self.conv_post(x).flatten(1)


def discriminator_loss(real, fake):
    return ((1 - real.float()) ** 2).mean() + (fake.float() ** 2).mean()


def generator_loss(fake):
    return ((1 - fake.float()) ** 2).mean()


def commons_clip_grad_value(parameters, clip_value=None):
    return sum(p.grad.norm() ** 2 for p in parameters if p.grad is not None) ** 0.5


def train_and_evaluate(epoch, hps, nets, optims, scaler, loader):
    net_g, net_d = nets
    optim_g, optim_d = optims
    net_g.train()
    net_d.train()
    for batch_idx, (phone, spec) in enumerate(loader):
        with autocast("cpu", dtype=torch.float16, enabled=hps.fp16_run):
            y_hat = net_g(phone)
            y_d_r, y_d_g = net_d(spec), net_d(y_hat.detach())
            with autocast("cpu", enabled=False):
                loss_disc = discriminator_loss(y_d_r, y_d_g)
        optim_d.zero_grad()
        scaler.scale(loss_disc).backward()
        scaler.unscale_(optim_d)
        grad_norm_d = commons_clip_grad_value(net_d.parameters())
        scaler.step(optim_d)

        with autocast("cpu", dtype=torch.float16, enabled=hps.fp16_run):
            y_d_g = net_d(y_hat)
            with autocast("cpu", enabled=False):
                loss_mel = F.l1_loss(y_hat.float(), spec) * hps.c_mel
                loss_gen_all = generator_loss(y_d_g) + loss_mel
        optim_g.zero_grad()
        scaler.scale(loss_gen_all).backward()
        scaler.unscale_(optim_g)
        grad_norm_g = commons_clip_grad_value(net_g.parameters())
        scaler.step(optim_g)
        scaler.update()
    print(f"epoch {epoch} disc {loss_disc.item():.4f} mel {loss_mel.item():.3f} norms {grad_norm_g:.3f} {grad_norm_d:.3f}")


def run(hps=HParams):
    torch.manual_seed(1234)
    net_g, net_d = Synthesizer(), PeriodDiscriminator()
    optim_g = torch.optim.AdamW(net_g.parameters(), hps.learning_rate, betas=hps.betas, eps=1e-9)
    optim_d = torch.optim.AdamW(net_d.parameters(), hps.learning_rate, betas=hps.betas, eps=1e-9)
    scheduler_g = torch.optim.lr_scheduler.ExponentialLR(optim_g, gamma=hps.lr_decay)
    scheduler_d = torch.optim.lr_scheduler.ExponentialLR(optim_d, gamma=hps.lr_decay)
    scaler = GradScaler("cpu", init_scale=1024.0, enabled=hps.fp16_run)
    phone = torch.randn(48, 16, 32)
    mix = torch.randn(40, 16) / 4
    loader = DataLoader(TensorDataset(phone, torch.einsum("mp,bpt->bmt", mix, phone)), hps.batch_size, shuffle=True)
    for epoch in range(1, hps.epochs + 1):
        train_and_evaluate(epoch, hps, (net_g, net_d), (optim_g, optim_d), scaler, loader)
        scheduler_g.step()
        scheduler_d.step()
    return optim_g, optim_d, len(loader) * hps.epochs


if __name__ == "__main__":
    run()
