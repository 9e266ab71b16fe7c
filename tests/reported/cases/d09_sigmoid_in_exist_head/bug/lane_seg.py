from torch import nn

from heads import HEADS


class LaneSegmenter(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.backbone = nn.Sequential(nn.Conv2d(1, cfg["channels"], 3, stride=2, padding=1), nn.ReLU(),
                                      nn.Conv2d(cfg["channels"], cfg["channels"], 3, padding=1), nn.ReLU())
        self.decoder = HEADS[cfg["decoder"]](cfg)
        self.exist = HEADS[cfg["head"]](cfg)
        self.criterion = nn.CrossEntropyLoss()
        self.criterion_exist = nn.BCEWithLogitsLoss()

    def loss(self, output, batch):
        seg = self.criterion(output["seg"], batch["mask"])
        exist = self.criterion_exist(output["exist"], batch["lane_exist"].float())
        return seg + self.cfg["exist_weight"] * exist, {"seg": seg.item(), "exist": exist.item()}

    def forward(self, batch):
        features = self.backbone(batch["img"])
        output = {}
        output.update(self.decoder(features))
        output.update(self.exist(features))
        return output
