import copy

import torch
from torch.nn import functional as F

from networks import PolicyNet, QValueNet


class SACContinuous:
    def __init__(self, state_dim, hidden_dim, action_dim, action_bound, lr=1e-3, tau=0.01, gamma=0.99):
        self.actor = PolicyNet(state_dim, hidden_dim, action_dim, action_bound)
        self.critic_1 = QValueNet(state_dim, hidden_dim, action_dim)
        self.critic_2 = QValueNet(state_dim, hidden_dim, action_dim)
        self.target_critic_1 = copy.deepcopy(self.critic_1).requires_grad_(False)
        self.target_critic_2 = copy.deepcopy(self.critic_2).requires_grad_(False)
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters(), lr=lr)
        self.critic_1_optimizer = torch.optim.Adam(self.critic_1.parameters(), lr=lr)
        self.critic_2_optimizer = torch.optim.Adam(self.critic_2.parameters(), lr=lr)
        self.log_alpha = torch.tensor(0.2).log().requires_grad_()
        self.log_alpha_optimizer = torch.optim.Adam([self.log_alpha], lr=lr)
        self.target_entropy = -action_dim
        self.tau, self.gamma = tau, gamma

    def calc_target(self, rewards, next_states, dones):
        next_actions, log_prob = self.actor(next_states)
        entropy = -log_prob
        q1 = self.target_critic_1(next_states, next_actions)
        q2 = self.target_critic_2(next_states, next_actions)
        next_value = torch.min(q1, q2) + self.log_alpha.exp() * entropy
        return rewards + self.gamma * next_value * (1 - dones)

    def soft_update(self, net, target_net):
        for target, param in zip(target_net.parameters(), net.parameters()):
            target.data.copy_(target.data * (1.0 - self.tau) + param.data * self.tau)

    def update(self, states, actions, rewards, next_states, dones):
        td_target = self.calc_target(rewards, next_states, dones).detach()
        critic_1_loss = F.mse_loss(self.critic_1(states, actions), td_target)
        critic_2_loss = F.mse_loss(self.critic_2(states, actions), td_target)
        self.critic_1_optimizer.zero_grad()
        critic_1_loss.backward()
        self.critic_1_optimizer.step()
        self.critic_2_optimizer.zero_grad()
        critic_2_loss.backward()
        self.critic_2_optimizer.step()

        new_actions, log_prob = self.actor(states)
        entropy = -log_prob
        q = torch.min(self.critic_1(states, new_actions), self.critic_2(states, new_actions))
        actor_loss = torch.mean(-self.log_alpha.exp().detach() * entropy - q)
        self.actor_optimizer.zero_grad()
        actor_loss.backward()
        self.actor_optimizer.step()

        alpha_loss = torch.mean((entropy - self.target_entropy).detach() * self.log_alpha.exp())
        self.log_alpha_optimizer.zero_grad()
        alpha_loss.backward()
        self.log_alpha_optimizer.step()
        self.soft_update(self.critic_1, self.target_critic_1)
        self.soft_update(self.critic_2, self.target_critic_2)
        return critic_1_loss.item(), tuple(td_target.shape), entropy
