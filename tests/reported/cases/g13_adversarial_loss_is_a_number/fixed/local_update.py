import torch
from torch import nn


class LocalAlign:
    def __init__(self, args, source, target, optimizer, optimizer_critic):
        self.args = args
        self.loss_func = nn.L1Loss()
        self.adv_loss = nn.BCEWithLogitsLoss()
        self.source, self.target = source, target
        self.optimizer, self.optimizer_critic = optimizer, optimizer_critic

    def set_requires_grad(self, net, flag):
        for param in net.parameters():
            param.requires_grad = flag

    def train(self, net, critic):
        net.train()
        critic.train()
        log = {"l1": [], "adv_g": [], "adv_d": []}
        for _ in range(self.args["local_ep"]):
            for (x, y), (x_t, _) in zip(self.source, self.target):
                net.zero_grad()
                critic.zero_grad()
                output, z = net(x)
                _, z_t = net(x_t)
                code_s = torch.tensor([[1.0, 0.0]]).repeat(len(x), 1)
                code_t = torch.tensor([[0.0, 1.0]]).repeat(len(x_t), 1)

                self.set_requires_grad(critic, True)
                d_src = self.adv_loss(critic(z.detach()), 1 - code_s)
                d_tgt = self.adv_loss(critic(z_t.detach()), 1 - code_t)
                d_loss = (d_src + d_tgt) / 2
                d_loss.backward()
                self.optimizer_critic.step()
                log["adv_d"].append(d_loss.detach().item())

                self.set_requires_grad(critic, False)
                d_src = self.adv_loss(critic(z), code_s)
                d_tgt = self.adv_loss(critic(z_t), code_t)
                fooling = (d_src + d_tgt) / 2
                log["adv_g"].append(fooling.detach().item())

                recon = self.loss_func(output, y)
                log["l1"].append(recon.detach().item())
                loss = recon + self.args["adv_weight"] * fooling
                loss.backward()
                self.optimizer.step()
        return {k: sum(v) / len(v) for k, v in log.items()}
