import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import transforms


def scene(seed, size=48):
    """A picture with a hole; the weighting is 0 in the hole, where the target is unknown (white)."""
    generator = torch.Generator().manual_seed(seed)
    image = torch.rand(3, size, size, generator=generator) * 0.8
    weighting = torch.ones(1, size, size)
    y, x = torch.randint(4, size // 2, (2,), generator=generator).tolist()
    image[:, y:y + 18, x:x + 18] = 1.0
    weighting[:, y:y + 18, x:x + 18] = 0.0
    return image, weighting


class RealFillDataset(Dataset):
    def __init__(self, count=24, size=32, center_crop=False):
        self.size = size
        self.count = count
        self.image_transforms = transforms.Compose(
            [
                transforms.Resize(size + 8),
                transforms.CenterCrop(size) if center_crop else transforms.RandomCrop(size),
                transforms.RandomHorizontalFlip(),
            ]
        )

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        example = {}
        image, weighting = scene(index)
        both = self.image_transforms(torch.cat([image, weighting]))
        example["images"], example["weightings"] = both[:3], both[3:]
        example["masks"] = (torch.rand(1, self.size, self.size) < 0.3).float()
        example["conditioning_images"] = example["images"] * (1 - example["masks"])
        return example


class Inpainter(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(5, 16, 3, padding=1), nn.SiLU(), nn.Conv2d(16, 3, 3, padding=1))

    def forward(self, conditioning, masks, weightings):
        return self.net(torch.cat([conditioning, masks, weightings], dim=1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--train_batch_size", type=int, default=8)
    parser.add_argument("--num_train_epochs", type=int, default=4)
    parser.add_argument("--learning_rate", type=float, default=2e-3)
    args = parser.parse_args()
    torch.manual_seed(0)
    loader = DataLoader(RealFillDataset(), batch_size=args.train_batch_size, shuffle=True)
    model = Inpainter()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate)
    for epoch in range(args.num_train_epochs):
        leaked = hole = 0
        for batch in loader:
            prediction = model(batch["conditioning_images"], batch["masks"], batch["weightings"])
            loss = (batch["weightings"] * (prediction - batch["images"]) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            unknown = batch["images"].amin(dim=1, keepdim=True) == 1
            leaked += (unknown & (batch["weightings"] > 0)).sum().item()
            hole += unknown.sum().item()
        print(f"epoch {epoch} loss {loss.item():.4f} unknown pixels in the loss {100 * leaked / hole:.1f}%")


if __name__ == "__main__":
    main()
