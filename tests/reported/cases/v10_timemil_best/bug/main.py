import os

import torch
import torch.nn as nn
from data import load_split
from torch.utils.data import DataLoader


def train(loader, net, criterion, optimizer):
    net.train()
    total = 0
    for feats, label in loader:
        optimizer.zero_grad()
        loss = criterion(net(feats), label)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 2.0)
        optimizer.step()
        total += loss.item()
    return total / len(loader)


def test(loader, net, criterion):
    net.eval()
    total, right, seen = 0, 0, 0
    with torch.no_grad():
        for feats, label in loader:
            out = net(feats)
            total += criterion(out, label).item()
            right += (out.argmax(1) == label).sum().item()
            seen += len(label)
    return total / len(loader), right / seen


def main(net, folder, num_epochs=300, save_dir="out"):
    trainset = load_split(folder, "train")
    testset = load_split(folder, "test")
    trainloader = DataLoader(trainset, 64, shuffle=True)
    testloader = DataLoader(testset, 128, shuffle=False)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(net.parameters(), lr=5e-3, weight_decay=1e-4)
    best_score = 0
    for epoch in range(1, num_epochs + 1):
        loss = train(trainloader, net, criterion, optimizer)
        test_loss, score = test(testloader, net, criterion)
        print(epoch, loss, test_loss, score)
        if score >= best_score:
            best_score = score
            torch.save(net.state_dict(), os.path.join(save_dir, "best_model.pth"))
    print("best accuracy", best_score)
