"""The classic train/val phase loop from transfer-learning tutorials."""
import copy

import torch
import torch.nn as nn

torch.set_num_threads(1)
torch.manual_seed(25)
datasets = {
    "train": [(torch.randn(10, 1, 8, 8), torch.randint(0, 2, (10,))) for _ in range(12)],
    "val": [(torch.randn(10, 1, 8, 8), torch.randint(0, 2, (10,))) for _ in range(3)],
}

model = nn.Sequential(
    nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 2)
)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
best_acc, best_weights = 0.0, copy.deepcopy(model.state_dict())

for epoch in range(3):
    for phase in ["train", "val"]:
        model.train(phase == "train")
        running = {"loss": 0.0, "hits": 0}
        for inputs, labels in datasets[phase]:
            optimizer.zero_grad()
            with torch.set_grad_enabled(phase == "train"):  # verify: training-under-no-grad refuted
                outputs = model(inputs)
                loss = criterion(outputs, labels)
                if phase == "train":
                    loss.backward()
                    optimizer.step()
            running["loss"] += loss * inputs.size(0)  # verify: undetached-accumulation confirmed
            running["hits"] += int((outputs.argmax(1) == labels).sum())
        n = 10 * len(datasets[phase])
        acc = running["hits"] / n
        print(f"{epoch} {phase}: {running['loss'].item() / n:.4f} acc {acc:.2f}")
        if phase == "val" and acc > best_acc:
            best_acc, best_weights = acc, copy.deepcopy(model.state_dict())
    scheduler.step()
model.load_state_dict(best_weights)
