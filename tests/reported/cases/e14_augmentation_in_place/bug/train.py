import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader

from cifar10 import Cifar10

cfg = {"DATA_LOADER": {"NUM_WORKERS": 0}, "OPTIM": {"BASE_LR": 0.02, "MAX_EPOCH": 5},
       "TRAIN": {"BATCH_SIZE": 16}, "TEST": {"BATCH_SIZE": 40}, "RNG_SEED": 3}


def construct_loader(split, batch_size, shuffle, drop_last):
    return DataLoader(Cifar10(split), batch_size=batch_size, shuffle=shuffle,
                      num_workers=cfg["DATA_LOADER"]["NUM_WORKERS"], drop_last=drop_last)


def construct_model():
    return nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
                         nn.Flatten(), nn.Linear(16, 4))


@torch.no_grad()
def test_epoch(loader, model):
    model.eval()
    correct = sum((model(inputs).argmax(1) == labels).sum().item() for inputs, labels in loader)
    return 100.0 * (1 - correct / len(loader.dataset))


def main():
    np.random.seed(cfg["RNG_SEED"])
    torch.manual_seed(cfg["RNG_SEED"])
    model = construct_model()
    loss_fun = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=cfg["OPTIM"]["BASE_LR"], momentum=0.9)
    train_loader = construct_loader("train", cfg["TRAIN"]["BATCH_SIZE"], shuffle=True, drop_last=True)
    test_loader = construct_loader("test", cfg["TEST"]["BATCH_SIZE"], shuffle=False, drop_last=False)
    for cur_epoch in range(cfg["OPTIM"]["MAX_EPOCH"]):
        model.train()
        spread = 0.0
        for inputs, labels in train_loader:
            loss = loss_fun(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            spread += inputs.std().item() / len(train_loader)
        print(f"epoch {cur_epoch + 1} std of inputs {spread:.5f} loss {loss.item():.4f} "
              f"top1 err {test_epoch(test_loader, model):.2f}")


if __name__ == "__main__":
    main()
