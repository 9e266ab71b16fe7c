import torch
from metrics import SubtokenF1
from torch import nn


class Code2Name(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.embed = nn.EmbeddingBag(vocab, dim)
        self.out = nn.Linear(dim, vocab)
        self.metrics = {"train": SubtokenF1(), "val": SubtokenF1()}

    def forward(self, tokens):
        return self.out(self.embed(tokens))

    def shared_step(self, batch, step):
        tokens, target = batch
        logits = self(tokens)
        loss = nn.functional.cross_entropy(logits, target)
        self.metrics[step].update(logits.argmax(-1), target)
        return loss

    def shared_epoch_end(self, step):
        score = self.metrics[step].compute()
        return {f"{step}/f1": score}


def fit(model, train_loader, val_loader, epochs):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(epochs):
        model.train()
        for batch in train_loader:
            optimizer.zero_grad()
            loss = model.shared_step(batch, "train")
            loss.backward()
            optimizer.step()
        print(model.shared_epoch_end("train"))
        model.eval()
        with torch.no_grad():
            for batch in val_loader:
                model.shared_step(batch, "val")
        print(model.shared_epoch_end("val"))
