import argparse

import torch
from torch.utils.data import DataLoader, TensorDataset

from utils import TinyDetector, fake_boxes


def parse(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch_size", type=int, default=8)
    parser.add_argument("--accumulate", type=int, default=4)
    return parser.parse_args(argv)


def main(argv=()):
    args = parse(list(argv))
    torch.manual_seed(0)
    model = TinyDetector()
    loader = DataLoader(TensorDataset(*fake_boxes(192)), batch_size=args.batch_size, shuffle=True)
    optimizer = torch.optim.Adam(model.parameters())
    for epoch in range(args.epochs):
        model.train()
        for index, (images, targets) in enumerate(loader):
            count = epoch * len(loader) + index + 1
            loss, pred = model(images, targets)
            loss.backward()

            if count % args.accumulate:
                optimizer.step()
                optimizer.zero_grad()
        print(f"epoch {epoch} loss {loss.item():.4f}")
    return model


if __name__ == "__main__":
    main()
