import torch
import torch.nn.functional as F


def tour_length(coords, tour):
    ordered = coords.gather(1, tour.unsqueeze(-1).expand(-1, -1, coords.size(-1)))
    return (ordered[:, 1:] - ordered[:, :-1]).norm(dim=-1).sum(1)


class Trainer:
    def __init__(self, conf, agent):
        self.conf = conf
        self.agent = agent
        self.optim = torch.optim.Adam(self.agent.parameters(), lr=conf["lr"])
        self.scheduler = torch.optim.lr_scheduler.ExponentialLR(self.optim, gamma=0.999)

    def learn(self, data):
        self.optim.zero_grad()
        tour, baseline, log_probs = self.agent(data)
        length = tour_length(data, tour)

        actor_loss = ((length - baseline.detach()) * log_probs).mean()
        critic_loss = F.mse_loss(baseline, length)
        loss = actor_loss + critic_loss
        loss.backward()
        self.optim.step()
        self.scheduler.step()
        return length.mean().item(), actor_loss.item(), critic_loss.item()

    def run(self):
        self.agent.train()
        running = [0.0, 0.0, 0.0]
        for step in range(self.conf["steps"]):
            coords = torch.rand(self.conf["batch_size"], self.conf["max_len"], 2)
            running = [a + b for a, b in zip(running, self.learn(coords))]
            if (step + 1) % self.conf["log_interval"] == 0:
                print(step, [round(v / self.conf["log_interval"], 4) for v in running])
                running = [0.0, 0.0, 0.0]
