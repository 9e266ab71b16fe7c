import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import Accelerator

def generator(dim=3):
    return nn.Sequential(nn.Conv2d(dim, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, dim, 3, padding=1), nn.Tanh())

def discriminator(dim=3):
    return nn.Sequential(nn.Conv2d(dim, 64, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(64, 1, 4, 2, 1))

def main(args, dataset):
    accelerator = Accelerator(mixed_precision=args.mixed_precision)
    net_gen, net_disc = generator(), discriminator()
    optimizer_gen = torch.optim.AdamW(net_gen.parameters(), lr=args.lr)
    optimizer_disc = torch.optim.AdamW(net_disc.parameters(), lr=args.lr)
    loader = torch.utils.data.DataLoader(dataset, batch_size=args.batch, shuffle=True)
    net_gen, net_disc, optimizer_gen, optimizer_disc, loader = accelerator.prepare(net_gen, net_disc, optimizer_gen, optimizer_disc, loader)
    for epoch in range(args.epochs):
        for source, target in loader:
            fake = net_gen(source)
            loss_rec = F.l1_loss(fake, target)
            loss_gan = F.softplus(-net_disc(fake)).mean()
            accelerator.backward(loss_rec + args.weight * loss_gan)
            optimizer_gen.step()
            optimizer_gen.zero_grad()
            optimizer_disc.zero_grad()
            loss_fake = F.softplus(net_disc(fake.detach())).mean()
            loss_real = F.softplus(-net_disc(target)).mean()
            accelerator.backward(0.5 * (loss_fake + loss_real))
            optimizer_disc.step()
            optimizer_disc.zero_grad()
