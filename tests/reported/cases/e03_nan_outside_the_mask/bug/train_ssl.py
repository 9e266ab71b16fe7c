import copy

import torch
from torch import nn

from loss_module_ssl import LossLatentSSLStudentTeacher


class Encoder(nn.Module):
    def __init__(self, channels=5, width=16):
        super().__init__()
        self.embed = nn.Linear(channels, width)
        self.block = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))

    def forward(self, tokens):
        x = self.embed(tokens)
        return x + self.block(x)


def observations(batch=8, tokens=20, channels=5):
    data = torch.randn(batch, tokens, channels)
    missing = torch.rand(batch, tokens) < 0.05
    data[missing] = float("nan")
    return data


@torch.no_grad()
def ema_update(teacher, student, decay=0.99):
    for old, new in zip(teacher.parameters(), student.parameters()):
        old.lerp_(new, 1 - decay)


def main():
    torch.manual_seed(3)
    student = Encoder()
    teacher = copy.deepcopy(student)
    predictor = nn.Linear(16, 16)
    criterion = LossLatentSSLStudentTeacher({"JEPA": 1.0})
    optimizer = torch.optim.AdamW([*student.parameters(), *predictor.parameters()], lr=1e-3)
    for step in range(20):
        data = observations()
        present = torch.isfinite(data).all(dim=-1)
        hidden = torch.rand(present.shape) < 0.4
        visible = torch.nan_to_num(data).masked_fill(hidden.unsqueeze(-1), 0.0)
        with torch.no_grad():
            target = teacher(data)
        loss, terms = criterion.compute_loss(predictor(student(visible)), target, hidden & present)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ema_update(teacher, student)
        if step % 5 == 0:
            print(step, {name: round(value.item(), 4) for name, value in terms.items()})


if __name__ == "__main__":
    main()
