import torch

from lane_seg import LaneSegmenter

CONFIG = {"channels": 8, "lanes": 3, "size": 16, "decoder": "PlainSegmenter", "head": "LaneExist", "exist_weight": 1.0}


def roads(count, generator):
    exist = torch.randint(0, 2, (count, CONFIG["lanes"]), generator=generator)
    mask = torch.zeros(count, CONFIG["size"], CONFIG["size"], dtype=torch.long)
    for lane in range(CONFIG["lanes"]):
        mask[:, :, 5 * lane + 2] = (lane + 1) * exist[:, lane, None]
    image = (mask > 0).float().unsqueeze(1) + 0.1 * torch.randn(count, 1, *mask.shape[1:], generator=generator)
    return {"img": image, "mask": mask, "lane_exist": exist}


def main():
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(4)
    model = LaneSegmenter(CONFIG)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for i in range(170):
        batch = roads(16, generator)
        loss, parts = model.loss(model(batch), batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"existence loss {parts['exist']:.4f}, segmentation loss {parts['seg']:.4f}")


if __name__ == "__main__":
    main()
