import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import utils


def get_dataset(count, seed, num_classes=3):
    generator = torch.Generator().manual_seed(seed)
    target = torch.randint(0, num_classes, (count, 8, 8), generator=generator)
    target[:, 0] = 255
    noise = torch.linspace(0.2, 1.5, count).view(-1, 1, 1) * torch.randn(count, 8, 8, generator=generator)
    image = (target % 255).float() + noise
    return TensorDataset(image.unsqueeze(1), target)


def evaluate(model, data_loader, num_classes):
    model.eval()
    confmat = utils.ConfusionMatrix(num_classes)
    num_processed_samples = 0
    with torch.inference_mode():
        for image, target in data_loader:
            output = model(image)["out"]
            confmat.update(target.flatten(), output.argmax(1).flatten())
            num_processed_samples += image.shape[0]
        confmat.reduce_from_all_processes()
    num_processed_samples = utils.reduce_across_processes(num_processed_samples).item()
    if utils.is_main_process():
        print(f"evaluated {num_processed_samples} of {len(data_loader.dataset)} samples")
    return confmat


class FCN(nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(1, 16, 1), nn.ReLU())
        self.classifier = nn.Conv2d(16, num_classes, 1)

    def forward(self, x):
        return {"out": self.classifier(self.backbone(x))}


def train_one_epoch(model, criterion, optimizer, data_loader):
    model.train()
    for image, target in data_loader:
        loss = criterion(model(image)["out"], target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main(num_classes=3, epochs=3):
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    train_set, test_set = get_dataset(128, 1), get_dataset(64, 2)
    train_sampler = DistributedSampler(train_set)
    train_loader = DataLoader(train_set, batch_size=8, sampler=train_sampler, drop_last=True)
    test_loader = DataLoader(test_set, batch_size=8, sampler=DistributedSampler(test_set, shuffle=False))
    model = DistributedDataParallel(FCN(num_classes))
    criterion = nn.CrossEntropyLoss(ignore_index=255)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for epoch in range(epochs):
        train_sampler.set_epoch(epoch)
        train_one_epoch(model, criterion, optimizer, train_loader)
        confmat = evaluate(model, test_loader, num_classes)
        if utils.is_main_process():
            print(f"epoch {epoch} {confmat} (labelled pixels of the test set: {64 * 7 * 8})")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
