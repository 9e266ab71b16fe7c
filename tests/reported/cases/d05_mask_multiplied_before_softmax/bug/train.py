import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

from abmil import BagClassifier


class Slides(Dataset):
    def __init__(self, count, seed):
        generator = torch.Generator().manual_seed(seed)
        self.bags, self.labels = [], torch.randint(0, 2, (count,), generator=generator)
        for label in self.labels:
            size = int(torch.randint(4, 40, (1,), generator=generator))
            bag = torch.randn(size, 12, generator=generator)
            bag[0] += 2.0 * label
            self.bags.append(bag)

    def __len__(self):
        return len(self.bags)

    def __getitem__(self, index):
        return self.bags[index], self.labels[index]


def collate(rows):
    bags, labels = zip(*rows)
    lengths = torch.tensor([len(bag) for bag in bags])
    mask = torch.arange(int(lengths.max()))[None] < lengths[:, None]
    return pad_sequence(bags, batch_first=True), mask, torch.stack(labels)


def main():
    torch.manual_seed(0)
    loader = DataLoader(Slides(256, 5), batch_size=16, shuffle=True, collate_fn=collate)
    model = BagClassifier(12)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(8):
        for bags, mask, labels in loader:
            logits, weights = model(bags, mask.float())
            loss = F.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        bags, mask, labels = collate([loader.dataset[i] for i in range(32)])
        _, weights = model(bags, mask.float())
    print(f"loss {loss.item():.3f}; attention on padded patches {(weights * ~mask).sum(1).mean().item():.3f}")


if __name__ == "__main__":
    main()
