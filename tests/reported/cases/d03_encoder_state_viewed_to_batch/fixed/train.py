import torch
import torch.nn.functional as F

from model import SentenceAutoencoder

VOCABULARY = 15


def sentences(count, generator):
    lengths = torch.randint(3, 8, (count,), generator=generator)
    tokens = torch.randint(1, VOCABULARY, (count, 1), generator=generator).expand(count, 7).clone()
    tokens[torch.arange(7)[None] >= lengths[:, None]] = 0
    return tokens, lengths


def step(model, optimizer, tokens, lengths, kl_weight):
    logits, mean, log_variance = model(tokens, lengths)
    nll = F.cross_entropy(logits.transpose(1, 2), tokens, ignore_index=0, reduction="sum") / len(tokens)
    kl = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum(1).mean()
    loss = nll + kl_weight * kl
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return nll.item()


def main():
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    model = SentenceAutoencoder(VOCABULARY, 16, 24, 8, bidirectional=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for i in range(150):
        nll = step(model, optimizer, *sentences(32, generator), kl_weight=0.05)
    model.eval()
    tokens, lengths = sentences(32, generator)
    changed = tokens.clone()
    changed[0] = torch.where(changed[0] > 0, changed[0] % (VOCABULARY - 1) + 1, 0)
    with torch.no_grad():
        moved = (model.encode(tokens, lengths)[0] - model.encode(changed, lengths)[0]).abs().amax(1) > 1e-5
    print(f"reconstruction {nll:.3f}; codes moved by a change of sentence 0: {moved.nonzero().flatten().tolist()}")


if __name__ == "__main__":
    main()
