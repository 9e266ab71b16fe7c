import torch


def make_schedule(config, optimizer):
    total = config["epochs"] * config["steps"]
    return torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=config["lr"], total_steps=total)
