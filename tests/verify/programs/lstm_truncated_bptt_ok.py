"""A language model with truncated backpropagation through time; the state is detached between chunks."""
import torch
from torch import nn


class LanguageModel(nn.Module):
    def __init__(self, vocab=25, dim=20):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.lstm = nn.LSTMCell(dim, dim)
        self.decode = nn.Linear(dim, vocab)

    def forward(self, token, state):
        h, c = self.lstm(self.embed(token), state)
        return self.decode(h), (h, c)


def repackage(state):
    return tuple(s.detach() for s in state)


def main(bptt=6, batch=8, chunks=20):
    torch.manual_seed(57)
    model = LanguageModel()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    corpus = (torch.arange(bptt * chunks + 1).unsqueeze(1) * torch.randint(1, 4, (1, batch))) % 25
    state = (torch.zeros(batch, 20), torch.zeros(batch, 20))
    for k in range(chunks):
        state = repackage(state)
        total_loss = 0
        for t in range(k * bptt, (k + 1) * bptt):
            logits, state = model(corpus[t], state)
            total_loss += nn.functional.cross_entropy(logits, corpus[t + 1])  # verify: undetached-accumulation refuted
        optimizer.zero_grad()
        total_loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        if k % 5 == 0:
            print(f"chunk {k}: perplexity {(total_loss.detach() / bptt).exp().item():.2f}")


def sample(model, start, length):
    """Greedy decoding."""
    state = (torch.zeros(1, 20), torch.zeros(1, 20))
    token, out = start, []
    with torch.no_grad():  # verify: training-under-no-grad not-reached
        for _ in range(length):
            logits, state = model(token, state)
            token = logits.argmax(dim=1)
            out.append(token.item())
    return out


if __name__ == "__main__":
    main()
