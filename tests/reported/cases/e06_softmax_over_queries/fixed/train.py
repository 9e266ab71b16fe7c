import torch
from torch.nn import functional as F

from unet import UNet


class DenoiseDiffusion:
    def __init__(self, eps_model, n_steps=100):
        self.eps_model = eps_model
        self.n_steps = n_steps
        self.alpha_bar = torch.cumprod(1.0 - torch.linspace(0.0001, 0.02, n_steps), dim=0)

    def loss(self, x0):
        t = torch.randint(0, self.n_steps, (x0.shape[0],))
        noise = torch.randn_like(x0)
        alpha_bar = self.alpha_bar[t].view(-1, 1, 1, 1)
        xt = alpha_bar ** 0.5 * x0 + (1 - alpha_bar) ** 0.5 * noise
        return F.mse_loss(noise, self.eps_model(xt, t.float()))


def main():
    torch.manual_seed(0)
    diffusion = DenoiseDiffusion(UNet())
    optimizer = torch.optim.Adam(diffusion.eps_model.parameters(), lr=2e-3)
    for step in range(60):
        base = torch.linspace(-1, 1, 12)
        x0 = (base[None, :] * torch.randn(16, 1, 1) + base[:, None]).unsqueeze(1)
        loss = diffusion.loss(x0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 19:
            print(f"step {step + 1} loss {loss.item():.4f}")
    block = diffusion.eps_model.middle.attn
    q, k = torch.randn(2, 2, 36, block.n_heads, block.d_k) * 2
    weights = block.attention(q, k).sum(dim=2)
    print(f"the weights of one query add up to {weights.min().item():.3f} ... {weights.max().item():.3f}")


if __name__ == "__main__":
    main()
