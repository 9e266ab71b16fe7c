import torch
from torch import nn


class Generator(nn.Module):
    def __init__(self, nz):
        super().__init__()
        self.nz = nz
        self.fc1 = nn.Linear(nz, 64)
        self.main = nn.Sequential(
            nn.BatchNorm1d(64),
            nn.ReLU(True),
            nn.Linear(64, 144),
            nn.Tanh(),
        )

    def forward(self, input):
        return self.main(self.fc1(input.view(-1, self.nz))).view(-1, 1, 12, 12)


class Discriminator(nn.Module):
    def __init__(self, num_classes=10):
        super().__init__()
        self.conv1 = nn.Sequential(
            nn.Conv2d(1, 16, 3, 2, 1, bias=False),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Dropout(0.2),
        )
        self.conv2 = nn.Sequential(
            nn.Conv2d(16, 32, 3, 2, 1, bias=False),
            nn.BatchNorm2d(32),
            nn.LeakyReLU(0.2, inplace=True),
        )
        self.fc_dis = nn.Linear(32 * 3 * 3, 1)
        self.fc_aux = nn.Linear(32 * 3 * 3, num_classes)
        self.softmax = nn.LogSoftmax(dim=1)
        self.sigmoid = nn.Sigmoid()

    def forward(self, input):
        flat = self.conv2(self.conv1(input)).view(-1, 32 * 3 * 3)
        classes = self.softmax(self.fc_aux(flat))
        realfake = self.sigmoid(self.fc_dis(flat)).view(-1, 1).squeeze(1)
        return realfake, classes


def weights_init(m):
    name = m.__class__.__name__
    if name.find('Conv') != -1:
        m.weight.data.normal_(0.0, 0.02)
    elif name.find('BatchNorm') != -1:
        m.weight.data.normal_(1.0, 0.02)
        m.bias.data.fill_(0)
