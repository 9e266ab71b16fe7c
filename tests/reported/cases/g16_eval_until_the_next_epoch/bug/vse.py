import torch
import torch.nn.functional as F
from torch import nn


def encoder(dim, width):
    return nn.Sequential(nn.Linear(dim, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, width))


class PairEmbedding:
    """Two encoders whose outputs are matched by a hinge loss over the batch."""

    def __init__(self, opt):
        self.image_net = encoder(opt.img_dim, opt.embed_size)
        self.text_net = encoder(opt.txt_dim, opt.embed_size)
        self.margin = opt.margin
        self.params = list(self.image_net.parameters()) + list(self.text_net.parameters())
        self.optimizer = torch.optim.Adam(self.params, lr=opt.learning_rate)
        self.batches_seen = 0

    def set_train(self):
        self.image_net.train()
        self.text_net.train()

    def set_eval(self):
        self.image_net.eval()
        self.text_net.eval()

    def embed(self, images, captions):
        return F.normalize(self.image_net(images)), F.normalize(self.text_net(captions))

    def hinge(self, img, txt):
        scores = img @ txt.t()
        cost = (self.margin + scores - scores.diag().view(-1, 1)).clamp(min=0)
        return cost.masked_fill(torch.eye(len(scores), dtype=torch.bool), 0).max(1)[0].sum()

    def learn(self, images, captions):
        self.batches_seen += 1
        loss = self.hinge(*self.embed(images, captions))
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.params, 2.0)
        self.optimizer.step()
        return loss.item()
