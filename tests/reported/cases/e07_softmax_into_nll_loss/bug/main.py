import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from network import Discriminator, Generator, weights_init

parser = argparse.ArgumentParser()
parser.add_argument('--batchSize', type=int, default=32)
parser.add_argument('--nz', type=int, default=20)
parser.add_argument('--niter', type=int, default=2)
parser.add_argument('--num_classes', type=int, default=10)
opt = parser.parse_args([])

torch.manual_seed(0)
labels = torch.randint(0, opt.num_classes, (640,))
images = torch.tanh(torch.randn(opt.num_classes, 1, 12, 12)[labels] + 0.3 * torch.randn(640, 1, 12, 12))
dataloader = DataLoader(TensorDataset(images, labels), batch_size=opt.batchSize, shuffle=True)

netG = Generator(opt.nz)
netD = Discriminator(opt.num_classes)
netG.apply(weights_init)
netD.apply(weights_init)

dis_criterion = nn.BCELoss()
aux_criterion = nn.NLLLoss()
optimizerD = torch.optim.Adam(netD.parameters(), lr=2e-3, betas=(0.5, 0.999))
optimizerG = torch.optim.Adam(netG.parameters(), lr=2e-3, betas=(0.5, 0.999))


def compute_acc(preds, labels):
    return (preds.argmax(dim=1) == labels).float().mean().item()


def class_noise(batch_size):
    label = torch.randint(0, opt.num_classes, (batch_size,))
    noise = torch.randn(batch_size, opt.nz)
    noise[torch.arange(batch_size), label] = 1
    return noise, label


for epoch in range(opt.niter):
    for i, (real, label) in enumerate(dataloader):
        batch_size = real.size(0)
        ones, zeros = torch.ones(batch_size), torch.zeros(batch_size)

        netD.zero_grad()
        dis_output, aux_output = netD(real)
        errD_real = dis_criterion(dis_output, ones) + aux_criterion(aux_output, label)
        errD_real.backward()
        accuracy = compute_acc(aux_output, label)
        noise, aux_label = class_noise(batch_size)
        fake = netG(noise)
        dis_output, aux_output = netD(fake.detach())
        aux_errD_fake = aux_criterion(aux_output, aux_label)
        errD_fake = dis_criterion(dis_output, zeros) + aux_errD_fake
        errD_fake.backward()
        optimizerD.step()

        netG.zero_grad()
        dis_output, aux_output = netD(fake)
        errG = dis_criterion(dis_output, ones) + aux_criterion(aux_output, aux_label)
        errG.backward()
        optimizerG.step()
    print('[%d/%d] Loss_D: %.4f Loss_aux: %.4f Loss_G: %.4f Acc: %.2f' % (
        epoch, opt.niter, errD_real.item() + errD_fake.item(), aux_errD_fake.item(), errG.item(), accuracy))
