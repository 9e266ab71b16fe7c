import torch
import torch.nn.functional as F
from models import batches, create_model


def update_ema(student, teacher, alpha=0.9):
    for t, s in zip(teacher.parameters(), student.parameters()):
        t.mul_(alpha).add_(s.detach(), alpha=1 - alpha)


def main():
    student, teacher = create_model(), create_model(ema=True)
    opt = torch.optim.SGD(student.parameters(), lr=0.1)
    history = []
    for epoch in range(2):
        for x, y in batches():
            target = teacher(x)
            loss = F.cross_entropy(student(x), y) + F.mse_loss(student(x), target)
            opt.zero_grad()
            loss.backward()
            opt.step()
            update_ema(student, teacher)
            history.append(target.mean())
    print(sum(history))


if __name__ == "__main__":
    main()
