import torch

from local_update import LocalAlign
from nets import DomainNet, ReconNet


def site(shift, n=8):
    out = []
    for _ in range(n):
        y = torch.randn(16, 16) + shift
        out.append((y + 0.3 * torch.randn_like(y), y))
    return out


def main(adv_weight=1.0):
    torch.manual_seed(0)
    net, critic = ReconNet(), DomainNet()
    optimizer = torch.optim.RMSprop(net.parameters(), lr=1e-3)
    optimizer_critic = torch.optim.RMSprop(critic.parameters(), lr=1e-3)
    update = LocalAlign({"local_ep": 2, "adv_weight": adv_weight}, site(0.0), site(1.0), optimizer, optimizer_critic)
    for rnd in range(3):
        print(rnd, {k: round(v, 4) for k, v in update.train(net, critic).items()})
    return net


if __name__ == "__main__":
    main()
