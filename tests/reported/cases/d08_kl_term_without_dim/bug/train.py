import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

from decoder import VariationalDecoder


class PointProcess(nn.Module):
    def __init__(self, width=16, latent=4, beta=0.05):
        super().__init__()
        self.history = nn.GRU(1, width, batch_first=True)
        self.head = VariationalDecoder(width, latent, beta)

    def forward(self, gaps, mask):
        history, _ = self.history(gaps[:, :-1].unsqueeze(-1))
        return self.head.loss(history, gaps[:, 1:], mask[:, 1:])


def sequences(count):
    generator = torch.Generator().manual_seed(21)
    for _ in range(count):
        length = int(torch.randint(5, 25, (1,), generator=generator))
        rhythm = torch.tensor([0.3, 2.0]).repeat(13)[:length]
        yield rhythm + 0.2 * torch.rand(length, generator=generator)


def collate(rows):
    lengths = torch.tensor([len(row) for row in rows])
    mask = (torch.arange(int(lengths.max()))[None] < lengths[:, None]).float()
    return pad_sequence(rows, batch_first=True), mask


def main():
    torch.manual_seed(0)
    model = PointProcess()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    kl_by_size = {}
    rows = list(sequences(256))
    for size in (8, 64):
        with torch.no_grad():
            kl_by_size[size] = model(*collate(rows[:size]))[1].item()
    for epoch in range(5):
        for gaps, mask in DataLoader(rows, batch_size=32, shuffle=True, collate_fn=collate):
            loss, kl = model(gaps, mask)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    print(f"KL an event at the start: {kl_by_size[8]:.3f} for 8 rows, {kl_by_size[64]:.3f} for 64; after training {kl:.5f}")


if __name__ == "__main__":
    main()
