from torch import optim


class TagTrainer:
    def __init__(self, model, data, lr=1e-3, epochs=3):
        self.model, self.data, self.lr, self.epochs = model, data, lr, epochs
        self.optimizer = None
        self.prepare()

    def prepare(self):
        groups = []
        group = {"lr": self.lr, "weight_decay": 1e-2, "params": []}
        for name, param in self.model.named_parameters():
            if "word_enc" in name:
                group["params"].append(param)
        groups.append(group)

        group = {"lr": self.lr, "weight_decay": 1e-2, "params": []}
        for name, param in self.model.named_parameters():
            if "prompt_proj" in name or "mixers" in name:
                group["params"].append(param)
        groups.append(group)

        group = {"lr": 5e-2, "weight_decay": 1e-2, "params": []}
        for name, param in self.model.named_parameters():
            if "chain" in name or name.startswith("emit"):
                group["params"].append(param)
        groups.append(group)
        self.optimizer = optim.AdamW(groups)

        for name, param in self.model.named_parameters():
            if "vision" in name:
                param.requires_grad = False

    def train(self):
        self.model.train()
        for epoch in range(self.epochs):
            total = 0.0
            for words, image, tags in self.data:
                loss = self.model(words, image, tags)
                total += loss.item()
                loss.backward()
                self.optimizer.step()
                self.optimizer.zero_grad()
            print(f"epoch {epoch} loss {total / len(self.data):.4f}")
