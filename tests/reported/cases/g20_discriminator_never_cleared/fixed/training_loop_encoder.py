import torch
from torch.nn.functional import softplus


def critic_loss(D, real, fake, r1_gamma):
    real = real.detach().requires_grad_(True)
    real_scores, fake_scores = D(real), D(fake)
    loss = softplus(fake_scores).mean() + softplus(-real_scores).mean()
    grads, = torch.autograd.grad(real_scores.sum(), real, create_graph=True)
    return loss + 0.5 * r1_gamma * grads.pow(2).sum(1).mean()


def encoder_loss(nets, real, args):
    rec = nets.G(nets.E(real))
    pixel = (rec - real).pow(2).mean()
    feature = (nets.F(rec) - nets.F(real)).pow(2).mean()
    fooling = softplus(-nets.D(rec)).mean()
    return pixel + args["feat"] * feature + args["adv"] * fooling, pixel


def training_loop(nets, batches, args):
    optimizer_E = torch.optim.Adam(nets.E.parameters(), lr=args["e_lr"], betas=(0.9, 0.99))
    optimizer_D = torch.optim.Adam(nets.D.parameters(), lr=args["d_lr"], betas=(0.9, 0.99))
    decay_E = torch.optim.lr_scheduler.ExponentialLR(optimizer_E, 0.999)
    decay_D = torch.optim.lr_scheduler.ExponentialLR(optimizer_D, 0.999)
    for step, real in enumerate(batches):
        nets.E.train()
        nets.D.train()

        enc_loss, pixel = encoder_loss(nets, real, args)
        optimizer_E.zero_grad()
        enc_loss.backward()
        optimizer_E.step()

        with torch.no_grad():
            fake = nets.G(nets.E(real))
        disc_loss = critic_loss(nets.D, real, fake, args["r1_gamma"])
        optimizer_D.zero_grad()
        disc_loss.backward()
        optimizer_D.step()

        decay_E.step()
        decay_D.step()
        if step % 20 == 0:
            print(f"step {step} E {enc_loss.item():.4f} pix {pixel.item():.4f} D {disc_loss.item():.4f}")
