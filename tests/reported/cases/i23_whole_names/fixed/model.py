import torch
import torch.nn as nn

class Scorer(nn.Module):
    def __init__(self, hidden=768, classes=3):
        super().__init__()
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(hidden, 12, batch_first=True), 6)
        self.LayerNorm = nn.LayerNorm(hidden)
        self.scoring = nn.Linear(hidden, classes)
    def forward(self, x):
        return self.scoring(self.LayerNorm(self.encoder(x)[:, 0]))

class TaskModel:
    def __init__(self, opt):
        self.net = Scorer()
        spared = ["bias", "gamma", "beta", "LayerNorm.bias", "LayerNorm.weight"]
        parts = [
            {"params": [p for n, p in self.net.named_parameters() if not any(part in n for part in spared)], "weight_decay": 0.01},
            {"params": [p for n, p in self.net.named_parameters() if any(part in n for part in spared)], "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(parts, lr=opt["learning_rate"])
        self.loss = nn.CrossEntropyLoss()

    def update(self, x, y):
        self.net.train()
        loss = self.loss(self.net(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        self.optimizer.step()
        return loss.item()
