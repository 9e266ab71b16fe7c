import torch
from tqdm.autonotebook import tqdm


def run_epoch(model, optimizer, loader, loss_func, device):
    losses = []
    for inputs, labels in loader:
        inputs, labels = inputs.to(device), labels.to(device)
        loss = loss_func(model(inputs), labels)
        if model.training:
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())
    return sum(losses) / len(losses)


def train_simple_network(model, loss_func, train_loader, test_loader=None, epochs=50, device="cpu", checkpoint_file=None, lr=0.001):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    model.to(device)
    history = []
    for epoch in tqdm(range(epochs), desc="Epoch"):
        model = model.train()
        history.append(run_epoch(model, optimizer, train_loader, loss_func, device))
        if test_loader is not None:
            model = model.eval()
            with torch.no_grad():
                run_epoch(model, optimizer, test_loader, loss_func, device)
    if checkpoint_file is not None:
        torch.save({"epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, checkpoint_file)
    return history
