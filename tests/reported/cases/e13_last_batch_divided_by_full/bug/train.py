import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from losses import Losses


class Clips(Dataset):
    def __init__(self, count=202, classes=5):
        generator = torch.Generator().manual_seed(2)
        self.labels = torch.randint(0, classes, (count,), generator=generator)
        self.clips = torch.randn(count, 3, 4, 6, 6, generator=generator) + self.labels.view(-1, 1, 1, 1, 1) * 0.2

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return {'data': self.clips[index], 'labels': self.labels[index]}


class SmallC3D(nn.Module):
    def __init__(self, labels=5, **kwargs):
        super().__init__()
        self.conv = nn.Conv3d(3, 8, 3, padding=1)
        self.fc = nn.Linear(8, labels)

    def forward(self, x):
        return self.fc(torch.relu(self.conv(x)).mean(dim=(2, 3, 4)))


class Logger:
    def __init__(self):
        self.rows = []

    def add_scalar(self, name, value, step):
        self.rows.append((step, value))


def train(**args):
    torch.manual_seed(args['seed'])
    train_loader = DataLoader(Clips(), batch_size=args['batch_size'], shuffle=True)
    model = SmallC3D(**args)
    optimizer = torch.optim.SGD(model.parameters(), lr=args['lr'], momentum=args['momentum'])
    model_loss = Losses(loss_type=args['loss_type'])
    writer = Logger()
    step = 0
    for epoch in range(args['epoch']):
        model.train()
        running_loss = 0.0
        optimizer.zero_grad()
        for batch, data in enumerate(train_loader):
            outputs = model(data['data'])
            loss = model_loss.loss(outputs, data)
            loss.backward()
            running_loss += loss.item()
            if (batch + 1) % args['pseudo_batch_loop'] == 0 or (batch + 1) == len(train_loader):
                # Apply large mini-batch normalization
                samples = args['pseudo_batch_loop'] * args['batch_size']
                for param in model.parameters():
                    param.grad *= 1. / float(samples)
                optimizer.step()
                optimizer.zero_grad()
                step += 1
                writer.add_scalar(args['dataset'] + '/train_loss', running_loss / samples, step)
                print('Epoch: {}/{}, step: {}, loss: {:.4f}'.format(epoch, args['epoch'], step, running_loss / samples))
                running_loss = 0.0
    return writer


if __name__ == '__main__':
    train(dataset='HMDB51', loss_type='M_XENTROPY', batch_size=10, pseudo_batch_loop=5, epoch=2,
          lr=0.05, momentum=0.9, seed=999, labels=5)
