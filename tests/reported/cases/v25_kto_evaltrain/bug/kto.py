import torch
from torch.utils.data import DataLoader
from tqdm import tqdm


class KTOTrainer:
    def __init__(self, actor, ref, loss_fn, optimizer, epochs):
        self.actor = actor
        self.ref = ref
        self.loss_fn = loss_fn
        self.optimizer = optimizer
        self.epochs = epochs

    def fit(self, train_set, eval_set):
        self.train_dataloader = DataLoader(train_set, batch_size=8, shuffle=True)
        self.eval_dataloader = DataLoader(eval_set, batch_size=8)
        for epoch in range(self.epochs):
            self._train(epoch)
            self._eval(epoch)

    def _train(self, epoch):
        self.actor.train()
        for batch in tqdm(self.train_dataloader, desc=f"train {epoch}"):
            self.optimizer.zero_grad()
            loss = self.loss_fn(self.actor(batch["input_ids"]), batch["label"])
            loss.backward()
            self.optimizer.step()

    def _eval(self, epoch):
        if self.eval_dataloader is None:
            return
        self.actor.eval()
        self.ref.eval()
        total = 0.0
        with torch.no_grad():
            for i, batch in enumerate(tqdm(self.train_dataloader, desc=f"eval {epoch}")):
                total += self.loss_fn(self.actor(batch["input_ids"]), batch["label"]).item()
        print("eval loss", total / (i + 1))
