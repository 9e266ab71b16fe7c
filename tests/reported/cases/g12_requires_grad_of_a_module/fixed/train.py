import torch

from adapt_trainer import PrototypeTrainer
from segnet import SegNet


def main():
    torch.manual_seed(0)
    source = SegNet()
    state = {k: v.clone() for k, v in source.state_dict().items()}
    target = [torch.randn(4, 1, 16, 16) * 2 + 1 for _ in range(6)]
    opt = {"num_classes": 3, "lr": 5e-3, "total_epochs": 3}
    model = PrototypeTrainer(opt, state).run(target)
    return source, model


if __name__ == "__main__":
    main()
