import torch


def risk_loss(time, seen, hazard):
    later = (time[None, :] >= time[:, None]).float()
    score = hazard.reshape(-1)
    return -torch.mean((score - torch.log((score.exp() * later).sum(1))) * seen)
