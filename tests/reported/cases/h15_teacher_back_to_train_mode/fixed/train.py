import torch
import torch.nn.functional as F
from kd_wrapper import KDModelWrapper
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class BottomUpClassifier(nn.Module):
    def __init__(self, hidden, dropout, num_labels=5):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(20, hidden), nn.BatchNorm1d(hidden), nn.GELU(), nn.Dropout(dropout))
        self.head = nn.Linear(hidden, num_labels)

    def forward(self, x):
        return self.head(self.encoder(x))


class SessionManager:
    def __init__(self, model, optimizer, train_loader, eval_loader, epochs):
        self.model, self.optimizer, self.epochs = model, optimizer, epochs
        self.train_loader, self.eval_loader = train_loader, eval_loader

    def train(self):
        for epoch in range(self.epochs):
            self.model.train()
            for inputs, labels in self.train_loader:
                self.optimizer.zero_grad()
                loss = self.model(inputs, labels)["loss"]
                loss.backward()
                self.optimizer.step()
            print(f"epoch {epoch} loss {loss.item():.4f} distillation {self.model.kd_last_comparison:.4f} eval {self.evaluate():.4f}")

    @torch.no_grad()
    def evaluate(self):
        self.model.eval()
        return sum(self.model(x, y)["loss"].item() for x, y in self.eval_loader) / len(self.eval_loader)


def pretrain_teacher(loader, epochs=5):
    teacher = BottomUpClassifier(64, 0.3)
    optimizer = torch.optim.AdamW(teacher.parameters(), lr=3e-3)
    for _ in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(teacher(x), y).backward()
            optimizer.step()
    return teacher


def main(epochs=3):
    torch.manual_seed(0)
    x = torch.randn(320, 20)
    y = x[:, :5].argmax(1)
    train_loader = DataLoader(TensorDataset(x[:256], y[:256]), batch_size=32, shuffle=True)
    eval_loader = DataLoader(TensorDataset(x[256:], y[256:]), batch_size=32)
    teacher = pretrain_teacher(train_loader)
    model = KDModelWrapper(BottomUpClassifier(16, 0.1), teacher)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    SessionManager(model, optimizer, train_loader, eval_loader, epochs).train()
    return model


if __name__ == "__main__":
    main()
