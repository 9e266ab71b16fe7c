"""SGD with a closure and a learning rate schedule; anomaly detection watches the very first step only."""
import torch
from torch import nn

torch.manual_seed(49)

model = nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(6 * 36, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=12, gamma=0.3)

for epoch in range(2):
    total = 0.0
    for step in range(12):
        images = torch.randn(16, 1, 8, 8)
        labels = (images.mean(dim=(1, 2, 3)) > 0).long()

        def closure():
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            return loss

        if epoch == 0 and step == 0:
            with torch.autograd.detect_anomaly():  # verify: anomaly-detection-left-on refuted
                loss = optimizer.step(closure)
        else:
            loss = optimizer.step(closure)  # verify: step-without-backward refuted
        scheduler.step()
        total += loss.item()
    torch.cuda.empty_cache()  # verify: empty-cache-in-loop refuted
    print(f"epoch {epoch}: {total / 12:.4f}")
