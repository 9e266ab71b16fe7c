import os
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
import torchvision.models as models

def validate(loader, model, device):
    model.eval()
    correct, seen = 0, 0
    with torch.no_grad():
        for images, target in loader:
            output = model(images.to(device))
            correct += (output.argmax(1).cpu() == target).sum().item()
            seen += len(target)
    return correct / seen

def main(train_set, val_set, epochs=90):
    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    device = torch.device("cuda", local_rank)
    model = DDP(models.resnet50().to(device), device_ids=[local_rank])
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
    train_sampler = DistributedSampler(train_set)
    train_loader = DataLoader(train_set, batch_size=64, sampler=train_sampler, num_workers=4)
    val_loader = DataLoader(val_set, batch_size=64, sampler=DistributedSampler(val_set, shuffle=False))
    best = 0.0
    for epoch in range(epochs):
        train_sampler.set_epoch(epoch)
        model.train()
        for images, target in train_loader:
            loss = criterion(model(images.to(device)), target.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        accuracy = validate(val_loader, model, device)
        if dist.get_rank() == 0 and accuracy > best:
            best = accuracy
            torch.save(model.module.state_dict(), "best.pth")
            print(epoch, accuracy)
