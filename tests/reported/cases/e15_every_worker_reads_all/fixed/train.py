import argparse
from collections import Counter

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

from iterable_dataset import IterableESPnetDataset


def sources(count=60):
    generator = torch.Generator().manual_seed(0)
    text, feats = [], []
    for index in range(count):
        length = int(torch.randint(3, 8, (1,), generator=generator))
        label = int(torch.randint(0, 3, (1,), generator=generator))
        frames = torch.randn(length, 4, generator=generator) + label
        text.append(f"utt{index:03d} {label}")
        feats.append(f"utt{index:03d} " + " ".join(f"{v:.3f}" for v in frames.flatten().tolist()))
    return "\n".join(text), "\n".join(feats)


def common_collate_fn(batch):
    uids = [uid for uid, _ in batch]
    speech = pad_sequence([data["speech"] for _, data in batch], batch_first=True)
    lengths = torch.tensor([len(data["speech"]) for _, data in batch])
    return uids, speech, lengths, torch.cat([data["text"] for _, data in batch])


class Classifier(nn.Module):
    def __init__(self, dim=4, classes=3):
        super().__init__()
        self.proj = nn.Linear(dim, 16)
        self.out = nn.Linear(16, classes)

    def forward(self, speech, lengths):
        mask = torch.arange(speech.shape[1])[None, :] < lengths[:, None]
        x = torch.relu(self.proj(speech)) * mask.unsqueeze(-1)
        return self.out(x.sum(1) / lengths.unsqueeze(1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--num_workers", type=int, default=2)
    parser.add_argument("--batch_size", type=int, default=10)
    parser.add_argument("--max_epoch", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(0)
    text, feats = sources()
    dataset = IterableESPnetDataset([(feats, "speech", "kaldi_ark"), (text, "text", "text_int")])
    loader = DataLoader(dataset, batch_size=args.batch_size, num_workers=args.num_workers,
                        collate_fn=common_collate_fn)
    model = Classifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(args.max_epoch):
        seen = Counter()
        for uids, speech, lengths, labels in loader:
            loss = nn.functional.cross_entropy(model(speech, lengths), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            seen.update(uids)
        print(f"epoch {epoch} loss {loss.item():.4f} utterances {sum(seen.values())} of {len(seen)} keys")


if __name__ == "__main__":
    main()
