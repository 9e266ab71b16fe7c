import torch
from torch import nn
from nets import pair
from clearing import forget

torch.manual_seed(0)
gen, critic = pair()
g_opt = torch.optim.Adam(gen.parameters(), lr=5e-3)
c_opt = torch.optim.Adam(critic.parameters(), lr=5e-3)
bce = nn.functional.binary_cross_entropy_with_logits
ones, zeros = torch.ones(32, 1), torch.zeros(32, 1)
for it in range(50):
    fake = gen(torch.randn(32, 2))
    g_loss = bce(critic(fake), ones)
    forget(g_opt)
    g_loss.backward()
    forget(c_opt)
    g_opt.step()
    real = 0.3 * torch.randn(32, 1) + 2
    c_loss = bce(critic(real), ones) + bce(critic(fake.detach()), zeros)
    c_loss.backward()
    c_opt.step()
print("g %.3f c %.3f mean of samples %.3f" % (g_loss.item(), c_loss.item(), fake.mean().item()))
