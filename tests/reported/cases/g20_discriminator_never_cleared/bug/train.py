import torch

from networks import Bundle
from training_loop_encoder import training_loop


def main(steps=80):
    torch.manual_seed(0)
    nets = Bundle()
    with torch.no_grad():
        batches = [nets.G(torch.randn(32, 6)) + 0.05 * torch.randn(32, 24) for _ in range(steps)]
    training_loop(nets, batches, {"e_lr": 1e-3, "d_lr": 1e-3, "feat": 0.05, "adv": 0.1, "r1_gamma": 1.0})
    return nets


if __name__ == "__main__":
    main()
