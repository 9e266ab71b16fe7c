import torch
import torch.nn.functional as F
from rnn_model import RNN_VAE
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, Dataset


class SequenceDataset(Dataset):
    """Windows of a (features, time) series of aligned marker positions."""

    def __init__(self, X, temporal_window):
        self.X, self.temporal_window = X, temporal_window

    def __len__(self):
        return self.X.shape[1] - self.temporal_window

    def __getitem__(self, index):
        return self.X[:, index : index + self.temporal_window].t()


def kullback_leibler_loss(mu, logvar):
    return torch.mean(-0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp(), dim=1))


def kl_annealing(epoch, kl_start, annealtime):
    return min(1, (epoch - kl_start) / annealtime) if epoch > kl_start else 0


def train(train_loader, epoch, model, optimizer, scheduler, cfg):
    model.train()
    total = 0.0
    for data_item in train_loader:
        reconstruction, mu, logvar = model(data_item)
        rec_loss = F.mse_loss(reconstruction, data_item, reduction="sum") / data_item.shape[0]
        kl = kullback_leibler_loss(mu, logvar)
        loss = rec_loss + cfg["beta"] * kl_annealing(epoch, cfg["kl_start"], cfg["annealtime"]) * kl
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=5)
        optimizer.step()
        total += loss.item()
    scheduler.step()
    return total / len(train_loader)


@torch.no_grad()
def test(test_loader, model):
    model.eval()
    return sum(F.mse_loss(model(x)[0], x).item() for x in test_loader) / len(test_loader)


def train_model(cfg, X):
    torch.manual_seed(cfg["seed"])
    split = int(0.8 * X.shape[1])
    train_loader = DataLoader(SequenceDataset(X[:, :split], cfg["time_window"]), cfg["batch_size"], shuffle=True, drop_last=True)
    test_loader = DataLoader(SequenceDataset(X[:, split:], cfg["time_window"]), cfg["batch_size"])
    model = RNN_VAE(X.shape[0], cfg["zdims"], cfg["hidden_size"])
    optimizer = torch.optim.Adam(model.parameters(), lr=cfg["learning_rate"], amsgrad=True)

    if cfg["scheduler"]:
        scheduler = StepLR(optimizer, step_size=cfg["scheduler_step_size"], gamma=cfg["scheduler_gamma"], last_epoch=-1)
    else:
        scheduler = StepLR(optimizer, step_size=cfg["scheduler_step_size"], gamma=1, last_epoch=-1)

    history = []
    for epoch in range(1, cfg["max_epochs"] + 1):
        train_loss = train(train_loader, epoch, model, optimizer, scheduler, cfg)
        test_loss = test(test_loader, model)
        history.append((train_loss, test_loss))
        print(f"Epoch {epoch}/{cfg['max_epochs']}, train loss {train_loss:.3f}, test mse {test_loss:.4f}")
    return model, optimizer, history
