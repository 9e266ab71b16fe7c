import torch

from agent import TourAgent
from trainer import Trainer


def main(steps=60):
    torch.manual_seed(0)
    agent = TourAgent()
    Trainer({"lr": 2e-3, "steps": steps, "batch_size": 32, "max_len": 8, "log_interval": 20}, agent).run()
    return agent


if __name__ == "__main__":
    main()
