import torch
from torch.utils.data import DataLoader, TensorDataset

from trainer import SimpleTrainer


class DataManager:
    dim = 10

    def __init__(self, per_class=60, classes=4):
        centers = torch.randn(classes, self.dim)
        self.lab2cname = {i: f"class_{i}" for i in range(classes)}
        self.train_loader_x = DataLoader(self.sample(centers, per_class), batch_size=16, shuffle=True)
        self.test_loader = DataLoader(self.sample(centers, per_class), batch_size=50)

    def sample(self, centers, per_class):
        labels = torch.arange(len(centers)).repeat_interleave(per_class)
        return TensorDataset(centers[labels] + 1.2 * torch.randn(len(labels), self.dim), labels)


def main():
    torch.manual_seed(1)
    cfg = {"OPTIM": {"LR": 0.01, "MAX_EPOCH": 6},
           "TEST": {"EVALUATOR": "Classification", "PER_CLASS_RESULT": True}}
    trainer = SimpleTrainer(cfg, DataManager())
    trainer.train()
    last = trainer.history[-1]
    # the classes have the same number of test samples, so both numbers should agree
    print(f"accuracy {last['accuracy']:.2f} mean of classes {last['perclass_accuracy']:.2f}")


if __name__ == "__main__":
    main()
