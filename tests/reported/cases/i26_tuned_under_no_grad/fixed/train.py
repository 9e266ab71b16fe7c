import argparse
import torch
import torch.nn as nn
from vision import Camera

class Captioner(nn.Module):
    def __init__(self, vocab=32000, dim=512):
        super().__init__()
        self.camera = Camera()
        self.bridge = nn.Linear(64, dim)
        self.decoder = nn.TransformerEncoderLayer(dim, 8, batch_first=True)
        self.embed = nn.Embedding(vocab, dim)
        self.words = nn.Linear(dim, vocab)
    def forward(self, images, tokens):
        feats = self.bridge(self.camera(images))
        x = torch.cat([feats, self.embed(tokens)], 1)
        return self.words(self.decoder(x))[:, feats.shape[1]:]

def main(loader):
    parser = argparse.ArgumentParser()
    parser.add_argument("--tune_camera", action="store_true")
    args = parser.parse_args()
    model = Captioner().cuda()
    model.camera.requires_grad_(args.tune_camera)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=2e-5)
    for images, tokens in loader:
        logits = model(images.cuda(), tokens[:, :-1].cuda())
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].cuda().flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
