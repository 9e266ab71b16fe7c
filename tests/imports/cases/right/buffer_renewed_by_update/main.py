import torch

from agent import Agent


class Walk:
    def reset(self):
        self.left = 5
        return torch.randn(1, 3)

    def step(self, action):
        self.left -= 1
        return torch.randn(1, 3), float(action), self.left == 0


def main():
    agent = Agent(Walk())
    agent.train()
    assert not agent.log_probs


if __name__ == "__main__":
    main()
