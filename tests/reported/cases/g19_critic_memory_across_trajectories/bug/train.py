import numpy as np
import torch

from critic import RecurrentCritic
from optimizer import CriticOptimizer


def trajectory(length=16):
    obs = torch.randn(length, 6)
    return obs, obs[:, 0].numpy().astype(np.float32)


def main(trajectories=30):
    torch.manual_seed(0)
    optimizer = CriticOptimizer(RecurrentCritic(), lr=3e-3)
    for step in range(trajectories):
        obs, rewards = trajectory()
        values = optimizer.values_of(obs, agent_id="walker-0", done=False)
        loss = optimizer.update(obs, optimizer.returns(rewards, float(values[-1])))
        if step % 10 == 9:
            print(f"step {step} loss {loss:.4f}")
    return optimizer


if __name__ == "__main__":
    main()
