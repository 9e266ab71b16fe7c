import torch
from features import Features


def activations(images, model, batch_size=2):
    model.eval()
    found = torch.empty(len(images), 3)
    for start in range(0, len(images), batch_size):
        batch = images[start : start + batch_size]
        output = model(batch)[-1]
        found[start : start + batch_size] = output.cpu()
    return found


def statistics(images, device):
    model = Features().to(device)
    return activations(images, model).mean(dim=0)


print(statistics(torch.randn(6, 4), "cpu").requires_grad)
