import math

import torch
import torch.nn.functional as F
from base_trainer import BaseTrainer
from torch import nn


class MotLoss(nn.Module):
    def __init__(self, opt):
        super().__init__()
        self.opt = opt
        self.emb_dim = opt.reid_dim
        self.nID = opt.nID
        self.classifier = nn.Linear(self.emb_dim, self.nID)
        self.IDLoss = nn.CrossEntropyLoss(ignore_index=-1)
        self.emb_scale = math.sqrt(2) * math.log(self.nID - 1)
        self.s_det = nn.Parameter(-1.85 * torch.ones(1))
        self.s_id = nn.Parameter(-1.05 * torch.ones(1))

    def forward(self, outputs, batch):
        hm_loss = F.binary_cross_entropy_with_logits(outputs["hm"], batch["hm"])
        wh_loss = F.l1_loss(outputs["wh"] * batch["mask"], batch["wh"] * batch["mask"])
        id_head = outputs["id"].flatten(2).transpose(1, 2)
        id_head = id_head.gather(1, batch["ind"][..., None].expand(-1, -1, self.emb_dim))
        id_head = self.emb_scale * F.normalize(id_head, dim=2)
        id_output = self.classifier(id_head)
        id_loss = self.IDLoss(id_output.flatten(0, 1), batch["ids"].flatten())

        det_loss = self.opt.hm_weight * hm_loss + self.opt.wh_weight * wh_loss
        loss = torch.exp(-self.s_det) * det_loss + torch.exp(-self.s_id) * id_loss + (self.s_det + self.s_id)
        loss = (loss * 0.5).sum()
        return loss, {"loss": loss, "hm_loss": hm_loss, "wh_loss": wh_loss, "id_loss": id_loss}


class MotTrainer(BaseTrainer):
    def _get_losses(self, opt):
        loss_states = ["loss", "hm_loss", "wh_loss", "id_loss"]
        return loss_states, MotLoss(opt)
