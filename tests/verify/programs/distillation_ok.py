"""Knowledge distillation from a frozen teacher to a small student."""
import argparse

import torch
from torch import nn
from torch.nn import functional as F


def net(width):
    return nn.Sequential(nn.Linear(20, width), nn.ReLU(), nn.BatchNorm1d(width), nn.Linear(width, 4))


def distill_loss(student_logits, teacher_logits, labels, T=2.0, alpha=0.7):
    soft = F.kl_div(
        F.log_softmax(student_logits / T, dim=1), F.softmax(teacher_logits / T, dim=1), reduction="batchmean"
    ) * T * T
    return alpha * soft + (1 - alpha) * F.cross_entropy(student_logits, labels)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--find-nan", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(51)
    if args.find_nan:
        torch.autograd.set_detect_anomaly(True)  # verify: anomaly-detection-left-on not-reached
    teacher, student = net(64).eval(), net(12)
    optimizer = torch.optim.Adam(student.parameters(), lr=3e-3)
    meter = []
    for step in range(args.steps):
        x = torch.randn(32, 20)
        labels = x[:, :4].argmax(dim=1)
        with torch.no_grad():  # verify: training-under-no-grad refuted
            teacher_logits = teacher(x)
        loss = distill_loss(student(x), teacher_logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        meter.append(loss.detach())  # verify: undetached-accumulation refuted
    print("mean loss of the first and last ten:", torch.stack(meter)[:10].mean(), torch.stack(meter)[-10:].mean())


if __name__ == "__main__":
    main()
