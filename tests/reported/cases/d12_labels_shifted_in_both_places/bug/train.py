import torch

from captioner import Captioner

VOCABULARY = 20


def captions(count, generator):
    start = torch.randint(0, VOCABULARY, (count, 1), generator=generator)
    stride = torch.randint(1, 4, (count, 1), generator=generator)
    tokens = (start + stride * torch.arange(9)) % VOCABULARY
    pixels = torch.randn(count, 4, 8, generator=generator)
    pixels[:, :, 0] = stride.float()
    return pixels, tokens


@torch.no_grad()
def next_token_accuracy(model, pixels, tokens):
    model.eval()
    _, logits = model(pixels, tokens[:, :-1])
    predicted = logits[:, model.patches + 1 :].argmax(-1)
    return (predicted == tokens[:, 2:]).float().mean().item()


def main():
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(12)
    model = Captioner(VOCABULARY)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for i in range(150):
        pixels, tokens = captions(32, generator)
        loss, _ = model(pixels, tokens, labels=tokens)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.3f}, accuracy of the next token {next_token_accuracy(model, *captions(64, generator)):.3f}")


if __name__ == "__main__":
    main()
