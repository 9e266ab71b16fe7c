from types import SimpleNamespace

import torch
from mot import MotTrainer
from torch import nn

OPT = dict(lr=5e-3, num_epochs=4, batch_size=8, reid_dim=16, nID=20, hm_weight=1, wh_weight=0.1, heads={"hm": 1, "wh": 2, "id": 16})


class DLASeg(nn.Module):
    def __init__(self, heads, width=24):
        super().__init__()
        self.base = nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1), nn.ReLU())
        self.heads = heads
        for head, channels in heads.items():
            setattr(self, head, nn.Conv2d(width, channels, 1))

    def forward(self, x):
        feat = self.base(x)
        return {head: getattr(self, head)(feat) for head in self.heads}


def jde_batches(opt, n=6, size=10, objects=4):
    g = torch.Generator().manual_seed(0)
    colours = torch.randn(opt.nID, 3, generator=g)
    batches = []
    for _ in range(n):
        b = opt.batch_size
        ind = torch.stack([torch.randperm(size * size, generator=g)[:objects] for _ in range(b)])
        ids = torch.randint(0, opt.nID, (b, objects), generator=g)
        image = 0.1 * torch.randn(b, 3, size * size, generator=g)
        image.scatter_add_(2, ind[:, None].expand(-1, 3, -1), colours[ids].transpose(1, 2))
        hm = torch.zeros(b, 1, size * size).scatter_(2, ind[:, None], 1.0)
        shape = (b, -1, size, size)
        batches.append(
            dict(input=image.view(shape), hm=hm.view(shape), mask=hm.view(shape), wh=torch.ones(b, 2, size, size), ind=ind, ids=ids)
        )
    return batches


def main(opt):
    torch.manual_seed(317)
    model = DLASeg(opt.heads)
    optimizer = torch.optim.Adam(model.parameters(), opt.lr)
    trainer = MotTrainer(opt, model, optimizer)
    train_loader = jde_batches(opt)
    for epoch in range(1, opt.num_epochs + 1):
        log = trainer.train(epoch, train_loader)
        print(f"epoch: {epoch} |", " | ".join(f"{k} {v:.4f}" for k, v in log.items()))
    return trainer


if __name__ == "__main__":
    main(SimpleNamespace(**OPT))
