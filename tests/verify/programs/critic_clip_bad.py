"""Wasserstein GAN where the generator reuses the critic scores of the critic update."""
import torch

torch.set_num_threads(1)
torch.manual_seed(91)


def params(*shape_list):
    return [(torch.randn(*s) * 0.2).requires_grad_(True) for s in shape_list]


def generate(g, z):
    return torch.tanh(z @ g[0]) @ g[1]


def score(c, x):
    return torch.tanh(x @ c[0]) @ c[1]


gen = params((3, 16), (16, 2))
critic = params((2, 16), (16, 1))
gen_opt = torch.optim.RMSprop(gen, lr=1e-3)
LR, CLIP = 1e-2, 0.5


def critic_update():
    with torch.no_grad():
        for p in critic:
            p.sub_(LR * p.grad)  # verify: inplace-on-saved-tensor confirmed
            p.grad.zero_()


for it in range(20):
    real = torch.randn(32, 2) * 0.5 + 1
    fake_score = score(critic, generate(gen, torch.randn(32, 3)))
    critic_loss = fake_score.mean() - score(critic, real).mean()
    critic_loss.backward(retain_graph=True)
    critic_update()
    gen_opt.zero_grad()
    gen_loss = -fake_score.mean()
    gen_loss.backward()
    gen_opt.step()
    if it % 5 == 0:
        print(it, critic_loss.item(), gen_loss.item())
