import torch
from torch.utils.data import DataLoader, random_split
from torchvision import datasets, transforms

NORM = transforms.Normalize((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))


def make_loaders(root, batch_size=64):
    train_transform = transforms.Compose(
        [transforms.RandomHorizontalFlip(), transforms.RandomRotation(10), transforms.ToTensor(), NORM]
    )
    plain = transforms.Compose([transforms.ToTensor(), NORM])
    train_data = datasets.CIFAR10(root, train=True, download=True, transform=train_transform)
    test_data = datasets.CIFAR10(root, train=False, download=True, transform=plain)
    train_size = int(0.8 * len(train_data))
    sizes = [train_size, len(train_data) - train_size]
    train_set, valid_set = random_split(train_data, sizes, torch.Generator().manual_seed(0))
    return (
        DataLoader(train_set, batch_size=batch_size, shuffle=True),
        DataLoader(valid_set, batch_size=batch_size),
        DataLoader(test_data, batch_size=batch_size),
    )


def evaluate(model, loader):
    model.eval()
    right = 0
    with torch.no_grad():
        for x, y in loader:
            right += (model(x).argmax(1) == y).sum().item()
    return right / len(loader.dataset)


def train(model, root, epochs=30):
    train_loader, valid_loader, test_loader = make_loaders(root)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    best = 0.0
    for epoch in range(epochs):
        model.train()
        for x, y in train_loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        score = evaluate(model, valid_loader)
        if score > best:
            best = score
            torch.save(model.state_dict(), "cifar.pt")
    model.load_state_dict(torch.load("cifar.pt"))
    print("test", evaluate(model, test_loader))
