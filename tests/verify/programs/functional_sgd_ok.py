"""A two-layer network in functional style, trained with a hand-written SGD with weight decay."""
import torch

torch.manual_seed(63)


def init(*sizes):
    weights = []
    for fan_in, fan_out in zip(sizes, sizes[1:]):
        weights.append((torch.randn(fan_in, fan_out) * (2.0 / fan_in) ** 0.5).requires_grad_())
        weights.append(torch.zeros(fan_out, requires_grad=True))
    return weights


def predict(weights, x):
    w1, b1, w2, b2 = weights
    return torch.relu(x @ w1 + b1) @ w2 + b2


def sgd(weights, lr, decay):
    with torch.no_grad():
        for w in weights:
            if w.dim() > 1:
                w *= 1 - lr * decay  # verify: inplace-on-leaf refuted
            w -= lr * w.grad  # verify: inplace-on-leaf refuted
            w.grad.zero_()


weights = init(4, 32, 2)
data = torch.randn(320, 4)
labels = (data[:, 0] * data[:, 1] > 0).long()

for epoch in range(3):
    total = 0.0
    for xb, yb in zip(data.split(20), labels.split(20)):
        loss = torch.nn.functional.cross_entropy(predict(weights, xb), yb)
        loss.backward()
        sgd(weights, lr=0.1, decay=1e-3)
        total += loss.item()
    torch.cuda.empty_cache()  # verify: empty-cache-in-loop refuted
    print(f"epoch {epoch}: {total / 16:.4f}")
