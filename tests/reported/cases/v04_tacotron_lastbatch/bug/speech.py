import torch
from torch.utils.data import DataLoader


def reduce_tensor(tensor, n_gpus):
    return tensor.clone() / n_gpus


def validate(model, criterion, valset, epoch, batch_iter, batch_size, collate_fn, logger, n_gpus=1):
    """Score the model on the validation set."""
    model.eval()
    with torch.no_grad():
        val_loader = DataLoader(valset, num_workers=1, shuffle=False, batch_size=batch_size, collate_fn=collate_fn)
        val_loss = 0.0
        for i, batch in enumerate(val_loader):
            x, y = model.parse_batch(batch)
            y_pred = model(x)
            loss = criterion(y_pred, y)
            reduced_val_loss = reduce_tensor(loss.data, n_gpus).item() if n_gpus > 1 else loss.item()
            val_loss += reduced_val_loss
        val_loss = val_loss / (i + 1)
    model.train()
    logger.log(step=(epoch,), data={"val_loss": reduced_val_loss})
    return val_loss


def main(model, criterion, trainset, valset, collate_fn, logger, epochs=100):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    train_loader = DataLoader(trainset, shuffle=True, batch_size=32, collate_fn=collate_fn)
    for epoch in range(epochs):
        model.train()
        for i, batch in enumerate(train_loader):
            optimizer.zero_grad()
            x, y = model.parse_batch(batch)
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
        validate(model, criterion, valset, epoch, i, 32, collate_fn, logger)
