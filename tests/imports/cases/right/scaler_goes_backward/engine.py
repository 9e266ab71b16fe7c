def train_epoch(model, loader, criterion, optimizer, scaler):
    total = 0.0
    for x, y in loader:
        mean, variance = model(x)
        loss = criterion(mean, variance, y)
        optimizer.zero_grad()
        scaler(loss)
        scaler.unscale_(optimizer)
        optimizer.step()
        total += loss.item()
    return total / len(loader)
