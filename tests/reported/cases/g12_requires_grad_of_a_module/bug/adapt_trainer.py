import torch
import torch.nn.functional as F

from segnet import SegNet


class PrototypeTrainer:
    """Adapts a source model to unlabelled target images; the classifier holds the source prototypes."""

    def __init__(self, opt, source_state):
        self.opt = opt
        self.source_state = source_state

    def initialize(self):
        self.model = SegNet(self.opt["num_classes"])
        self.model.load_state_dict(self.source_state)
        self.model.classifier.requires_grad = False
        self.optimizer, self.schedule = self.get_optimizers()

    def get_optimizers(self):
        params = list(self.model.parameters())
        optimizer = torch.optim.Adam(params, lr=self.opt["lr"], betas=(0.9, 0.999), weight_decay=5e-4)
        return optimizer, torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.8)

    def adapt_step(self, imgs):
        self.optimizer.zero_grad()
        feature, predict = self.model(imgs)
        probs = predict.softmax(1)
        entropy = -(probs * (probs + 1e-8).log()).sum(1).mean()
        balance = probs.mean((0, 2, 3))
        loss = entropy + (balance * (balance * self.opt["num_classes"] + 1e-8).log()).sum()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def run(self, loader):
        self.initialize()
        self.model.train()
        for epoch in range(self.opt["total_epochs"]):
            total = sum(self.adapt_step(imgs).item() for imgs in loader)
            self.schedule.step()
            print(f"epoch {epoch} loss {total / len(loader):.4f}")
        return self.model
