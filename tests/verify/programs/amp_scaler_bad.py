"""Mixed precision template run on the CPU with a GradScaler; gradients are reset after overflows."""
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(2)
torch.autograd.set_detect_anomaly(True)  # verify: anomaly-detection-left-on confirmed

config = {
    "model": {"hidden": 24, "classes": 4},
    "train": {"steps": 20, "lr": 1e-3, "clip": 1.0},
}

model = nn.Sequential(
    nn.Linear(12, config["model"]["hidden"]),
    nn.LayerNorm(config["model"]["hidden"]),
    nn.SiLU(),
    nn.Linear(config["model"]["hidden"], config["model"]["classes"]),
)
optimizer = torch.optim.AdamW(model.parameters(), lr=config["train"]["lr"])
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)


def train_step(x, y):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(model(x), y)
    scaler.scale(loss).backward()  # verify: missing-zero-grad confirmed
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), config["train"]["clip"])
    before = scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    if scaler.get_scale() < before:
        optimizer.zero_grad(set_to_none=True)
    return loss.item()


for step in range(config["train"]["steps"]):
    value = train_step(torch.randn(16, 12), torch.randint(0, 4, (16,)))
print("done", value)
