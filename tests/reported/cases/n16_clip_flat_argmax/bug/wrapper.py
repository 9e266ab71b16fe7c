import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from torch import nn


class Towers(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.image = nn.Sequential(nn.Flatten(), nn.Linear(3 * 16 * 16, width))
        self.words = nn.EmbeddingBag(1000, width)
        self.logit_scale = nn.Parameter(torch.ones([]) * 2.6)

    def encode(self, image, text):
        return F.normalize(self.image(image), dim=1), F.normalize(self.words(text), dim=1)


class CLIPWrapper(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = Towers()

    def training_step(self, batch, batch_idx):
        image, text = batch
        ims, txt = self.model.encode(image, text)
        image_logits = ims @ txt.t() * self.model.logit_scale.exp()
        ground_truth = torch.arange(len(image_logits), device=image_logits.device)
        loss = (F.cross_entropy(image_logits, ground_truth) + F.cross_entropy(image_logits.t(), ground_truth)).div(2)
        acc_i = (torch.argmax(image_logits) == ground_truth).sum()
        acc_t = (torch.argmax(image_logits.t()) == ground_truth).sum()
        self.log_dict({"loss": loss, "acc": (acc_i + acc_t) / 2 / len(image)}, prog_bar=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.model.parameters(), lr=5e-4, betas=(0.9, 0.98))


def main(loader):
    pl.Trainer(max_epochs=1).fit(CLIPWrapper(), loader)


if __name__ == "__main__":
    main([(torch.randn(8, 3, 16, 16), torch.randint(0, 1000, (8, 12))) for _ in range(4)])
