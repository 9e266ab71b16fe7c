import torch

from networks import AgentQ, Mixer


class QMixPolicy:
    def __init__(self, conf):
        self.conf = conf
        self.q_net = AgentQ(conf["obs_dim"], conf["n_actions"])
        self.slow_q = AgentQ(conf["obs_dim"], conf["n_actions"])
        self.mixer = Mixer(conf["n_agents"], conf["state_dim"])
        self.slow_mixer = Mixer(conf["n_agents"], conf["state_dim"])
        self.slow_q.load_state_dict(self.q_net.state_dict())
        self.slow_mixer.load_state_dict(self.mixer.state_dict())
        self.weights = list(self.mixer.parameters()) + list(self.q_net.parameters())
        self.optimizer = torch.optim.RMSprop(self.weights, lr=conf["lr"])

    def learn(self, batch, step):
        o, o_, s, s_, u, r, done = batch
        q_now = self.q_net(o).gather(2, u.unsqueeze(2)).squeeze(2)
        q_next = self.slow_q(o_).max(2)[0]
        joint_now = self.mixer(q_now, s)
        joint_next = self.slow_mixer(q_next, s_)
        targets = r + self.conf["gamma"] * joint_next * (1 - done)
        loss = (joint_now - targets.detach()).pow(2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.weights, self.conf["max_norm"])
        self.optimizer.step()

        if step > 0 and step % self.conf["sync_every"] == 0:
            self.slow_q.load_state_dict(self.q_net.state_dict())
            self.slow_mixer.load_state_dict(self.mixer.state_dict())
        return loss.item()
