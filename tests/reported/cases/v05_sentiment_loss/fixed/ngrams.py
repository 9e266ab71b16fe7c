import torch
from torch.utils.data import DataLoader

BATCH_SIZE = 16


class TextSentiment(torch.nn.Module):
    def __init__(self, vocab, dim, classes):
        super().__init__()
        self.embedding = torch.nn.EmbeddingBag(vocab, dim)
        self.fc = torch.nn.Linear(dim, classes)

    def forward(self, text, offsets):
        return self.fc(self.embedding(text, offsets))


def generate_batch(batch):
    label = torch.tensor([entry[0] for entry in batch])
    text = [entry[1] for entry in batch]
    offsets = torch.tensor([0] + [len(entry) for entry in text][:-1]).cumsum(dim=0)
    return torch.cat(text), offsets, label


def train_func(model, optimizer, criterion, data_):
    train_loss = 0
    train_acc = 0
    data = DataLoader(data_, batch_size=BATCH_SIZE, shuffle=True, collate_fn=generate_batch)
    model.train()
    for text, offsets, cls in data:
        optimizer.zero_grad()
        output = model(text, offsets)
        loss = criterion(output, cls)
        train_loss += loss.item()
        loss.backward()
        optimizer.step()
        train_acc += (output.argmax(1) == cls).sum().item()
    return train_loss / len(data), train_acc / len(data_)


def test(model, criterion, data_):
    loss = 0
    acc = 0
    data = DataLoader(data_, batch_size=BATCH_SIZE, collate_fn=generate_batch)
    model.eval()
    for text, offsets, cls in data:
        with torch.no_grad():
            output = model(text, offsets)
            batch_loss = criterion(output, cls)
            loss += batch_loss.item()
            acc += (output.argmax(1) == cls).sum().item()
    return loss / len(data), acc / len(data_)
