import torch
from torch import nn


class TransitionLayer(nn.Module):
    """Scores of tag sequences: emissions plus learnt transitions."""

    def __init__(self, tags):
        super().__init__()
        self.start = nn.Parameter(torch.zeros(tags))
        self.transitions = nn.Parameter(torch.zeros(tags, tags))

    def neg_log_likelihood(self, emissions, tags):
        score = self.start[tags[:, 0]] + emissions[:, 0].gather(1, tags[:, :1]).squeeze(1)
        alpha = self.start + emissions[:, 0]
        for t in range(1, emissions.size(1)):
            score = score + self.transitions[tags[:, t - 1], tags[:, t]]
            score = score + emissions[:, t].gather(1, tags[:, t:t + 1]).squeeze(1)
            alpha = torch.logsumexp(alpha.unsqueeze(2) + self.transitions, 1) + emissions[:, t]
        return (torch.logsumexp(alpha, 1) - score).mean()


class PromptTagger(nn.Module):
    def __init__(self, vocab=40, hidden=24, tags=4):
        super().__init__()
        self.word_enc = nn.Embedding(vocab, hidden)
        self.vision = nn.Linear(6, hidden)
        self.prompt_proj = nn.Linear(hidden, hidden)
        self.mixers = nn.Linear(hidden, 1)
        self.emit = nn.Linear(hidden, tags)
        self.chain = TransitionLayer(tags)

    def forward(self, words, image, tags):
        prompt = self.prompt_proj(self.vision(image)).unsqueeze(1)
        h = self.word_enc(words)
        h = torch.tanh(h + torch.sigmoid(self.mixers(h)) * prompt)
        return self.chain.neg_log_likelihood(self.emit(h), tags)
