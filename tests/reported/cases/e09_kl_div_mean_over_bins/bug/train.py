import torch
from torch import nn

from losses import build_loss, distribution_focal_loss

model = dict(
    reg_max=16,
    in_channels=12,
    loss_ld=dict(type="KnowledgeDistillationKLDivLoss", loss_weight=0.25, T=10),
)


class LDHead(nn.Module):
    def __init__(self, reg_max, in_channels, loss_ld, width=64):
        super().__init__()
        self.reg_max = reg_max
        self.gfl_reg = nn.Sequential(nn.Linear(in_channels, width), nn.ReLU(), nn.Linear(width, 4 * (reg_max + 1)))
        self.loss_ld = build_loss(loss_ld)

    def forward(self, feats):
        return self.gfl_reg(feats).view(-1, self.reg_max + 1)

    def loss(self, pred_corners, target_corners, soft_corners=None):
        losses = dict(loss_dfl=distribution_focal_loss(pred_corners, target_corners))
        if soft_corners is not None:
            losses["loss_ld"] = self.loss_ld(pred_corners, soft_corners, weight=None, avg_factor=len(pred_corners))
        return losses


def batch(size=32):
    feats = torch.randn(size, model["in_channels"])
    corners = (feats[:, :4].sigmoid() * 15.9).flatten()
    return feats, corners


def fit(head, steps, teacher=None):
    optimizer = torch.optim.SGD(head.parameters(), lr=0.05, momentum=0.9)
    for step in range(steps):
        feats, corners = batch()
        with torch.no_grad():
            soft = teacher(feats) if teacher is not None else None
        losses = head.loss(head(feats), corners, soft)
        optimizer.zero_grad()
        sum(losses.values()).backward()
        optimizer.step()
    return losses


def main():
    torch.manual_seed(0)
    teacher = LDHead(**model, width=128)
    fit(teacher, 100)
    student = LDHead(**model)
    print({name: round(value.item(), 4) for name, value in fit(student, 60, teacher).items()})
    feats, _ = batch(256)
    with torch.no_grad():
        T = student.loss_ld.T
        p, q = (teacher(feats) / T).softmax(1), (student(feats) / T).softmax(1)
        exact = (p * (p / q).log()).sum(1).mean() * T * T
        loss = student.loss_ld(student(feats), teacher(feats)) / student.loss_ld.loss_weight
    print(f"KL divergence {exact.item():.4f} distillation loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
