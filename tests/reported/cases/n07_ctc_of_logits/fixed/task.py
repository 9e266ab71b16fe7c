import torch
import torch.nn.functional as F

from model import Aligner


class AlignTask:
    def __init__(self):
        self.model = Aligner()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=2e-4)
        self.weights = {"ph_ctc_loss": 1.0, "bd_loss": 0.5}

    def add_ctc_loss(self, output, sample, losses):
        ph_frame_logits = output["ph_frame_logits"].log_softmax(-1).transpose(0, 1)
        losses["ph_ctc_loss"] = F.ctc_loss(
            ph_frame_logits, sample["phones"], sample["mel_lengths"], sample["ph_lengths"],
            blank=0, zero_infinity=True)

    def add_bd_loss(self, output, sample, losses):
        losses["bd_loss"] = F.binary_cross_entropy_with_logits(output["bd_logits"], sample["bd"])

    def step(self, sample):
        losses = {}
        output = self.model(sample["mel"])
        self.add_ctc_loss(output, sample, losses)
        self.add_bd_loss(output, sample, losses)
        total = sum(self.weights[k] * v for k, v in losses.items())
        self.optimizer.zero_grad()
        total.backward()
        self.optimizer.step()
        return {k: v.item() for k, v in losses.items()}


def sample(batch=4, frames=50, phones=8):
    return {
        "mel": torch.randn(batch, frames, 40),
        "phones": torch.randint(1, 60, (batch, phones)),
        "mel_lengths": torch.full((batch,), frames),
        "ph_lengths": torch.full((batch,), phones),
        "bd": torch.randint(0, 2, (batch, frames)).float(),
    }


if __name__ == "__main__":
    task = AlignTask()
    for _ in range(10):
        print(task.step(sample()))
