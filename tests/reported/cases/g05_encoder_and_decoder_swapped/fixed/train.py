import torch
import torch.nn.functional as F
from torch import optim
from torch.nn.utils import clip_grad_norm_

from vae import AttributeVAE

lr, w_c, w_z, w_fake = 1e-3, 0.5, 0.1, 0.1


def batches(n, size=32):
    for _ in range(n):
        y = torch.randint(2, (size,))
        yield 0.5 * torch.randn(size, 20) + (2 * y - 1).unsqueeze(1).float(), y


def main(iterations=60):
    torch.manual_seed(0)
    model = AttributeVAE()
    opt_disc = optim.Adam(model.disc_weights, lr=lr)
    opt_gen = optim.Adam(model.dec_weights, lr=lr)
    opt_enc = optim.Adam(model.enc_weights, lr=lr)

    for step, (x, y) in enumerate(batches(iterations)):
        fake, _, c = model.generate(len(x))
        disc_loss = F.cross_entropy(model.disc(x), y) + w_fake * F.cross_entropy(model.disc(fake.detach()), c.argmax(1))
        disc_loss.backward()
        clip_grad_norm_(model.disc_weights, 5)
        opt_disc.step()
        model.zero_grad()

        recon, kl = model(x)
        fake, z, c = model.generate(len(x))
        attr_c = F.cross_entropy(model.disc(fake), c.argmax(1))
        attr_z = F.mse_loss(model.encode(fake)[0], z)
        gen_loss = recon + 0.1 * kl + w_c * attr_c + w_z * attr_z
        gen_loss.backward()
        clip_grad_norm_(model.dec_weights, 5)
        opt_gen.step()
        model.zero_grad()

        recon, kl = model(x)
        enc_loss = recon + 0.1 * kl
        enc_loss.backward()
        clip_grad_norm_(model.enc_weights, 5)
        opt_enc.step()
        model.zero_grad()
        if step % 20 == 0:
            print(f"{step} D {disc_loss.item():.4f} G {gen_loss.item():.4f} E {enc_loss.item():.4f}")
    print(f"recon {recon.item():.5f}")
    return model, opt_gen, opt_enc


if __name__ == "__main__":
    main()
