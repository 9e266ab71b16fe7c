import torch


def estimate_advantages(rewards, masks, values, gamma, tau):
    deltas = torch.zeros(rewards.size(0), 1)
    advantages = torch.zeros(rewards.size(0), 1)
    prev_value = 0
    prev_advantage = 0
    for i in reversed(range(rewards.size(0))):
        deltas[i] = rewards[i] + gamma * prev_value * masks[i] - values[i]
        advantages[i] = deltas[i] + gamma * tau * prev_advantage * masks[i]
        prev_value = values[i, 0]
        prev_advantage = advantages[i, 0]
    returns = values + advantages
    advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    return advantages, returns
