"""Training code as people write it, of any length, to be measured on."""

from __future__ import annotations

HEAD = '''\
"""Train and evaluate image classifiers."""

import argparse
import logging
import math
import os
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

logger = logging.getLogger(__name__)

'''
MODEL = '''
class Block{n}(nn.Module):
    """A residual block with squeeze and excitation."""

    def __init__(self, channels, hidden, dropout=0.1):
        super().__init__()
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv1 = nn.Conv2d(channels, hidden, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(hidden)
        self.conv2 = nn.Conv2d(hidden, channels, 3, padding=1, bias=False)
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(channels, channels // 4, 1),
            nn.ReLU(),
            nn.Conv2d(channels // 4, channels, 1),
            nn.Sigmoid(),
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        residual = x
        x = self.conv1(F.relu(self.norm1(x)))
        x = self.conv2(self.dropout(F.relu(self.norm2(x))))
        return residual + x * self.gate(x)

    def reset(self):
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out")
                if module.bias is not None:
                    nn.init.zeros_(module.bias)


class Images{n}(Dataset):
    """Images on disk, with their labels."""

    def __init__(self, folder, transform=None, cache=False):
        self.paths = sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".pt"))
        self.transform = transform
        self.cached = {{}} if cache else None

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        if self.cached is not None and index in self.cached:
            return self.cached[index]
        image, label = torch.load(self.paths[index])
        if self.transform is not None:
            image = self.transform(image)
        if self.cached is not None:
            self.cached[index] = image, label
        return image, label
'''
TRAINING = '''

def learning_rate_{n}(step, warmup, total):
    """Linear warm-up, then half a cosine."""
    if step < warmup:
        return step / max(1, warmup)
    progress = (step - warmup) / max(1, total - warmup)
    return 0.5 * (1.0 + math.cos(math.pi * progress))


def train_epoch_{n}(model, loader, optimizer, scheduler, scaler, device, clip=1.0):
    """One epoch with mixed precision; returns the mean loss."""
    model.train()
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    total, seen, start = 0.0, 0, time.time()
    for step, (images, labels) in enumerate(loader):
        images, labels = images.to(device, non_blocking=True), labels.to(device)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda"):
            logits = model(images)
            loss = criterion(logits, labels)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = nn.utils.clip_grad_norm_(model.parameters(), clip)
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
        total += loss.item() * images.size(0)
        seen += images.size(0)
        if step % 100 == 0:
            speed = seen / (time.time() - start)
            logger.info("step %d loss %.4f norm %.2f, %.0f images/s", step, loss.item(), norm, speed)
    return total / max(1, seen)


@torch.no_grad()
def evaluate_{n}(model, loader, device):
    """Accuracy over a loader."""
    model.eval()
    correct = seen = 0
    for images, labels in loader:
        predicted = model(images.to(device)).argmax(dim=1)
        correct += (predicted == labels.to(device)).sum().item()
        seen += labels.numel()
    return correct / max(1, seen)


def fit_{n}(arguments):
    """Train one model from its command-line arguments."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Sequential(nn.Conv2d(3, 64, 7, stride=2), Block{n}(64, 128), nn.Flatten(), nn.LazyLinear(10)).to(device)
    loader = DataLoader(Images{n}(arguments.data), batch_size=arguments.batch, shuffle=True, num_workers=8)
    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.lr, weight_decay=0.05)
    total = arguments.epochs * len(loader)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: learning_rate_{n}(step, 500, total))
    scaler = torch.amp.GradScaler()
    best = 0.0
    for epoch in range(arguments.epochs):
        loss = train_epoch_{n}(model, loader, optimizer, scheduler, scaler, device)
        accuracy = evaluate_{n}(model, loader, device)
        logger.info("epoch %d: loss %.4f, accuracy %.3f", epoch, loss, accuracy)
        if accuracy > best:
            best = accuracy
            torch.save({{"model": model.state_dict(), "epoch": epoch}}, os.path.join(arguments.out, "best_{n}.pt"))
    return best
'''
BUG = '''

def finetune(model, loader, epochs):
    """A loop with a bug, so that there is something to show."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    losses = 0
    for epoch in range(epochs):
        for images, labels in loader:
            loss = F.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            losses += loss
        torch.cuda.empty_cache()
    return losses
'''


def file(lines: int) -> str:
    """A file of at least so many lines, in which no default rule finds anything."""
    text, number = HEAD, 0
    while text.count("\n") < lines:
        number += 1
        text += MODEL.format(n=number) + TRAINING.format(n=number)
    return text
