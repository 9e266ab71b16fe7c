import logging

import torch
from torch import nn
from trainer import Trainer, TrainerOptions


class CTCModel(nn.Module):
    def __init__(self, idim=12, hidden=24, vocab=6):
        super().__init__()
        self.encoder = nn.LSTM(idim, hidden, batch_first=True)
        self.ctc_lo = nn.Linear(hidden, vocab)
        self.ctc_loss = nn.CTCLoss(reduction="sum")

    def forward(self, speech, speech_lengths, text, text_lengths):
        hs, _ = self.encoder(speech)
        ys_hat = self.ctc_lo(hs).log_softmax(2).transpose(0, 1)
        loss = self.ctc_loss(ys_hat, text, speech_lengths, text_lengths) / speech.shape[0]
        return loss, {"loss": loss.detach().item()}, speech.shape[0]


def make_batch(generator, size=6, frames=20, idim=12):
    text = torch.randint(1, 6, (size, 4), generator=generator)
    speech = torch.zeros(size, frames, idim)
    for i in range(size):
        for j, token in enumerate(text[i]):
            speech[i, 5 * j : 5 * j + 5, token] = 1.0
    speech += 0.3 * torch.randn(speech.shape, generator=generator)
    lengths, text_lengths = torch.full((size,), frames), torch.full((size,), 4)
    return dict(speech=speech, speech_lengths=lengths, text=text, text_lengths=text_lengths)


def iter_factory(iepoch, num_batches=10):
    generator = torch.Generator().manual_seed(iepoch)
    batches = [make_batch(generator) for _ in range(num_batches)]
    if iepoch == 2:
        batches[3]["speech_lengths"] = torch.tensor([20, 20, 3, 20, 20, 20])  # badly cut: shorter than its text
    return batches


def main():
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.manual_seed(0)
    model = CTCModel()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 5))
    valid = [make_batch(torch.Generator().manual_seed(99)) for _ in range(2)]
    reporter = Trainer.run(model, [optimizer], [scheduler], iter_factory, valid, TrainerOptions())
    return model, reporter


if __name__ == "__main__":
    main()
