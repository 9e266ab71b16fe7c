import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tracking import MeanMonitor, MovingMeanMonitor, Tracker


def questions(count, seed):
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(count, 12, generator=generator)
    difficulty = torch.linspace(0, 4, count)
    scores = features[:, :4] + difficulty[:, None] * torch.randn(count, 4, generator=generator)
    votes = nn.functional.one_hot(scores.argmax(1), 4) * 7 + nn.functional.one_hot(scores.topk(2).indices[:, 1], 4) * 3
    return TensorDataset(features, votes.float(), torch.arange(count))


def batch_accuracy(output, votes):
    agreeing = votes.gather(1, output.argmax(1, keepdim=True))
    return (agreeing * 0.3).clamp(max=1)


def run(net, loader, optimizer, tracker, train, prefix):
    net.train(train)
    monitor = MovingMeanMonitor if train else MeanMonitor
    loss_track = tracker.track(f"{prefix}_loss", monitor())
    accuracy_track = tracker.track(f"{prefix}_acc", monitor())
    accuracies, indices = [], []
    for features, votes, index in loader:
        with torch.set_grad_enabled(train):
            output = net(features)
            nll = -(output.log_softmax(1) * votes / 10).sum(1)
            loss = nll.mean()
        accuracy = batch_accuracy(output.detach(), votes)
        if train:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        else:
            accuracies.append(accuracy.view(-1))
            indices.append(index)
        loss_track.append(loss.item())
        accuracy_track.append(accuracy.mean().item())
    if not train:
        return torch.cat(accuracies), torch.cat(indices)


def main():
    torch.manual_seed(0)
    net = nn.Linear(12, 4)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    tracker = Tracker()
    train_loader = DataLoader(questions(640, 1), batch_size=64, shuffle=True)
    val_loader = DataLoader(questions(134, 2), batch_size=64)
    for epoch in range(10):
        run(net, train_loader, optimizer, tracker, train=True, prefix="train")
        accuracies, _ = run(net, val_loader, optimizer, tracker, train=False, prefix="val")
    print(f"val accuracy reported {tracker.tracks['val_acc'].monitor.value:.4f}, of all answers {accuracies.mean().item():.4f}")


if __name__ == "__main__":
    main()
