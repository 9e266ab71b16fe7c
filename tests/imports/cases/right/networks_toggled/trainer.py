import torch
from models import Discriminator, Generator
from loading import *


class GAN(Toggler):
    def __init__(self):
        self.G, self.D = Generator(), Discriminator()
        self.opt_g = torch.optim.Adam(self.G.parameters())
        self.opt_d = torch.optim.Adam(self.D.parameters())

    def fake(self, n):
        return self.G(torch.randn(n, 3))

    def step_d(self, real):
        self.opt_d.zero_grad()
        fake = self.fake(real.size(0))
        loss = bce(self.D(real), 1) + bce(self.D(fake), 0)
        loss.backward()
        self.opt_d.step()

    def step_g(self, real):
        self.opt_g.zero_grad()
        loss = bce(self.D(self.fake(real.size(0))), 1)
        loss.backward()
        self.opt_g.step()

    def step(self, real):
        self.toggle(self.D)
        self.step_d(real)
        self.toggle(self.G)
        self.step_g(real)
