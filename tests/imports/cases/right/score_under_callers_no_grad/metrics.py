def score(model, loader):
    """Mean absolute error over a loader."""
    model.eval()
    total, count = 0.0, 0
    for x, y in loader:
        total += (model(x) - y).abs().sum().item()
        count += len(x)
    return total / count
