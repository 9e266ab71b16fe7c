import torch
from optims import LinearWarmupCosine


def train(model, loader, max_epoch=4):
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-5)
    scheduler = LinearWarmupCosine(optimizer, max_epoch, len(loader), 1e-5, 3e-5, 5000, 1e-6)
    for epoch in range(max_epoch):
        for i, (image, text) in enumerate(loader):
            scheduler.step(cur_epoch=epoch, cur_step=i)
            optimizer.zero_grad()
            loss = model(image, text)
            loss.backward()
            optimizer.step()
