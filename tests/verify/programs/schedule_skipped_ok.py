"""Mixed precision whose loss scale is so large at first that steps are skipped; a GAN steps its schedules in the end."""
import torch
from torch import nn
from torch.optim import lr_scheduler

torch.set_num_threads(1)
torch.manual_seed(9)

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
schedule = lr_scheduler.ExponentialLR(optimizer, 0.99)  # verify: scheduler-never-stepped refuted
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127)
maker, judge = nn.Linear(2, 3), nn.Linear(3, 1)
makers = torch.optim.Adam(maker.parameters())
judges = torch.optim.Adam(judge.parameters())
maker_schedule = lr_scheduler.StepLR(makers, 4)
judge_schedule = lr_scheduler.StepLR(judges, 4)
finetuned = lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)

for step in range(8):
    loss = (model(torch.randn(8, 4)) - 3).pow(2).mean()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    schedule.step()  # verify: scheduler-before-optimizer refuted, says inconclusive

    judges.zero_grad()
    (judge(torch.randn(8, 3)) - judge(maker(torch.randn(8, 2)).detach())).mean().backward()
    judges.step()
    makers.zero_grad()
    (-judge(maker(torch.randn(8, 2)))).mean().backward()
    makers.step()
    judge_schedule.step()  # verify: scheduler-before-optimizer refuted
    maker_schedule.step()  # verify: scheduler-before-optimizer refuted
    if step:
        finetuned.step()
