import torch
import torch.nn as nn
import torch.optim as optim

def models(width=32):
    generator = nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.LeakyReLU(0.2), nn.Conv2d(width, 3, 3, padding=1), nn.Tanh())
    critic = nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.LeakyReLU(0.2), nn.Conv2d(width, 1, 3, padding=1))
    return generator, critic

def fit_scale(real, opt):
    generator, critic = models()
    optimizer_d = optim.Adam(critic.parameters(), lr=opt.lr_d, betas=(0.5, 0.999))
    optimizer_g = optim.Adam(generator.parameters(), lr=opt.lr_g, betas=(0.5, 0.999))
    fixed_noise = torch.randn_like(real)
    for epoch in range(opt.rounds):
        for j in range(opt.critic_passes):
            optimizer_d.zero_grad()
            fake = generator(torch.randn_like(real))
            critic_loss = -critic(real).mean() + critic(fake.detach()).mean()
            critic_loss.backward()
            optimizer_d.step()
        for j in range(opt.generator_passes):
            optimizer_g.zero_grad()
            fake = generator(torch.randn_like(real))
            generator_loss = -critic(fake).mean()
            generator_loss.backward()
            rebuilt = opt.alpha * nn.functional.mse_loss(generator(fixed_noise), real)
            rebuilt.backward()
            optimizer_g.step()
        print(epoch, critic_loss.item(), generator_loss.item(), rebuilt.item())
