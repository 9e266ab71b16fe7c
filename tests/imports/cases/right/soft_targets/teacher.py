import torch


def soft_labels(net, x, temperature=0.5):
    with torch.no_grad():
        return torch.softmax(net(x) / temperature, dim=1)
