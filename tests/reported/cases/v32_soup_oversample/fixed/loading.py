import itertools

import torch
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset):
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        row = self.rows[index]
        return torch.tensor(row["x"]), torch.tensor(row["y"])


def cycle_to(rows, size):
    return list(itertools.islice(itertools.cycle(rows), size))


def interleave(sources):
    size = max(len(rows) for rows in sources)
    full = [cycle_to(rows, size) for rows in sources]
    return [row for group in zip(*full) for row in group]


def load(sources, val_split=0.1):
    cuts = [int(len(rows) * (1 - val_split)) for rows in sources]
    kept = [rows[:cut] for rows, cut in zip(sources, cuts)]
    held = [rows[cut:] for rows, cut in zip(sources, cuts)]
    return Rows(interleave(kept)), Rows([row for rows in held for row in rows])


def train(model, sources, epochs=3):
    train_set, val_set = load(sources)
    train_loader = DataLoader(train_set, batch_size=32, shuffle=True)
    val_loader = DataLoader(val_set, batch_size=32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for epoch in range(epochs):
        model.train()
        for x, y in train_loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            total = sum(torch.nn.functional.cross_entropy(model(x), y).item() for x, y in val_loader)
        print(epoch, total / len(val_loader))
