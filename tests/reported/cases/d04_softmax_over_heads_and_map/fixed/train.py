import torch
import torch.nn.functional as F

from segmentation import MaskHead

WIDTH, HEADS, QUERIES = 16, 4, 3


def scenes(count, generator):
    prototypes = torch.randn(QUERIES, WIDTH, generator=torch.Generator().manual_seed(9))
    owner = torch.randint(0, QUERIES, (count, 8, 8), generator=generator)
    image = prototypes[owner].permute(0, 3, 1, 2) + 0.5 * torch.randn(count, WIDTH, 8, 8, generator=generator)
    queries = prototypes.expand(count, -1, -1)
    targets = F.one_hot(owner, QUERIES).permute(0, 3, 1, 2).float()
    padding = torch.zeros(count, 8, 8, dtype=torch.bool)
    padding[:, :, 6:] = True
    return queries, image, padding, targets


def masked_bce(logits, targets, padding):
    loss = F.binary_cross_entropy_with_logits(logits, targets, reduction="none")
    valid = ~padding[:, None].expand_as(loss)
    return loss[valid].mean()


def main():
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(2)
    head = MaskHead(WIDTH, HEADS)
    optimizer = torch.optim.AdamW(head.parameters(), lr=1e-3)
    for i in range(80):
        queries, image, padding, targets = scenes(16, generator)
        logits, maps = head(queries, image, padding)
        loss = masked_bce(logits, targets, padding)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    mass = maps.sum(dim=(-2, -1)).detach()
    print(f"loss {loss.item():.4f}; attention mass per head {mass.min().item():.3f} to {mass.max().item():.3f}")


if __name__ == "__main__":
    main()
