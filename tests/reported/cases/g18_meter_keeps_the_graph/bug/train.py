import torch
from torch import nn

from tracking_trainer import TrackingTrainer


class BoxActor(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, 32), nn.ReLU(), nn.Linear(32, 5))

    def forward(self, data):
        frames, boxes = data
        out = self.net(frames)
        clf = nn.functional.softplus(-out[:, 4]).mean()
        iou = nn.functional.smooth_l1_loss(out[:, :4], boxes)
        loss = iou + 0.1 * clf
        return loss, {"Loss/total": loss, "Loss/iou": iou, "Loss/clf": clf}


def sequences(n):
    return [(lambda x: (x, x[:, :4].tanh()))(torch.randn(8, 16)) for _ in range(n)]


def main(epochs=2):
    torch.manual_seed(0)
    actor = BoxActor()
    optimizer = torch.optim.Adam(actor.parameters(), lr=1e-3)
    trainer = TrackingTrainer(actor, {"train": sequences(20), "val": sequences(10)}, optimizer)
    trainer.train(epochs)
    return trainer


if __name__ == "__main__":
    main()
