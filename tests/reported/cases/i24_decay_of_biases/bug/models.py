import torch
import torch.nn as nn
from transformers import BertForSequenceClassification, get_scheduler

def make_optimizer(network, lr, weight_decay):
    spared = ["bias", "LayerNorm.weight"]
    first = []
    second = []
    for n, p in network.named_parameters():
        if any(text in n for text in spared):
            first.append(p)
        else:
            second.append(p)
    parts = [
        {"params": first, "weight_decay": weight_decay},
        {"params": second, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(parts, lr=lr, eps=1e-8)

class Learner(nn.Module):
    def __init__(self, options, batches):
        super().__init__()
        self.network = BertForSequenceClassification.from_pretrained("bert-base-uncased", num_labels=2)
        self.optimizer = make_optimizer(self.network, options["lr"], options["weight_decay"])
        self.lr_scheduler = get_scheduler("linear", self.optimizer, num_warmup_steps=0, num_training_steps=options["num_epochs"] * batches)
        self.loss = nn.CrossEntropyLoss(reduction="none")

    def update(self, x, y):
        value = self.loss(self.network(x).logits, y).mean()
        self.optimizer.zero_grad()
        value.backward()
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()
        self.lr_scheduler.step()
        return value.item()
