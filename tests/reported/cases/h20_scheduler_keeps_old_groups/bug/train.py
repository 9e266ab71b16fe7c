import tempfile

import optimizers
import torch
from saver import Saver
from torch import nn

CONFIG = {
    "batch_size": 16,
    "max_steps": 60,
    "save_every_n": 20,
    "report_every_n": 10,
    "optimizer": {"name": "adam", "lr": 0.0},
    "lr_scheduler": {"name": "warmup_polynomial", "num_warmup_steps": 6, "start_lr": 1e-2, "end_lr": 0.0, "decay_steps": 54, "power": 0.5},
}


class EncDecModel(nn.Module):
    def __init__(self, vocab=30, width=24, grammar=8):
        super().__init__()
        self.encoder = nn.EmbeddingBag(vocab, width)
        self.decoder = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, grammar))

    def forward(self, questions, rules):
        return nn.functional.cross_entropy(self.decoder(self.encoder(questions)), rules)


class Trainer:
    def __init__(self, config):
        self.config = config
        torch.manual_seed(0)
        self.model = EncDecModel()
        self.data_random = torch.Generator().manual_seed(1)

    def batch(self):
        questions = torch.randint(0, 30, (self.config["batch_size"], 5), generator=self.data_random)
        return questions, questions.sum(1) // 19

    def train(self, modeldir, stop_at=None):
        config = self.config
        optimizer = optimizers.construct("optimizer", config["optimizer"], params=self.model.parameters())
        lr_scheduler = optimizers.construct("lr_scheduler", config["lr_scheduler"], param_groups=optimizer.param_groups)

        # 1. Restore model parameters
        saver = Saver({"model": self.model, "optimizer": optimizer})
        last_step = saver.restore(modeldir)
        lrs = []

        # 2. Start training loop
        while last_step < (stop_at or config["max_steps"]):
            self.model.train()
            optimizer.zero_grad()
            loss = self.model(*self.batch())
            loss.backward()
            lr_scheduler.update_lr(last_step)
            optimizer.step()
            lrs.append(optimizer.param_groups[0]["lr"])
            if last_step % config["report_every_n"] == 0:
                print(f"Step {last_step}: loss={loss.item():.4f} lr={lrs[-1]:.5f}")
            last_step += 1
            if last_step % config["save_every_n"] == 0:
                saver.save(modeldir, last_step)
        return lrs


def main():
    modeldir = tempfile.mkdtemp()
    first = Trainer(CONFIG).train(modeldir, stop_at=20)
    second = Trainer(CONFIG).train(modeldir)  # the same command after the job was killed
    return first, second


if __name__ == "__main__":
    main()
