import copy

import torch

from model import BlockClassifier

EPOCHS, BATCH_SIZE = 15, 16


def take(dataset, idx, bs):
    blocks, labels = dataset
    return blocks[idx:idx + bs], labels[idx:idx + bs]


def make(n, noise):
    blocks = torch.randint(30, (n, 6, 4))
    labels = (blocks < 10).flatten(1).sum(1).sub(6).clamp(0, 4).div(2, rounding_mode="floor")
    flip = torch.rand(n) < noise
    return blocks, torch.where(flip, torch.randint(3, (n,)), labels)


def evaluate(model, dataset, criterion):
    total_acc, total_loss, total = 0.0, 0.0, 0
    for i in range(0, len(dataset[1]), BATCH_SIZE):
        inputs, labels = take(dataset, i, BATCH_SIZE)
        model.batch_size = len(labels)
        model.hidden = model.init_hidden()
        with torch.no_grad():
            output = model(inputs)
        total_acc += (output.argmax(1) == labels).sum().item()
        total_loss += criterion(output, labels).item() * len(labels)
        total += len(labels)
    return total_acc / total, total_loss / total


def main():
    torch.manual_seed(0)
    fit_set, dev_set, test_set = make(96, 0.3), make(64, 0.0), make(64, 0.0)
    model = BlockClassifier()
    optimizer = torch.optim.Adamax(model.parameters(), lr=2e-2)
    criterion = torch.nn.CrossEntropyLoss()
    top = 0.0
    chosen = model
    for epoch in range(EPOCHS):
        for i in range(0, len(fit_set[1]), BATCH_SIZE):
            inputs, labels = take(fit_set, i, BATCH_SIZE)
            model.zero_grad()
            model.batch_size = len(labels)
            model.hidden = model.init_hidden()
            loss = criterion(model(inputs), labels)
            loss.backward()
            optimizer.step()
        acc, val_loss = evaluate(model, dev_set, criterion)
        print(f"epoch {epoch} train loss {loss.item():.3f} val loss {val_loss:.3f} val acc {acc:.3f}")
        if acc > top:
            top = acc
            chosen = copy.deepcopy(model)
    model = chosen
    print("test acc %.3f" % evaluate(model, test_set, criterion)[0])
    return top, evaluate(model, dev_set, criterion)[0]


if __name__ == "__main__":
    main()
