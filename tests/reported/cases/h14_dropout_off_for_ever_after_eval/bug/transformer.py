import torch
import torch.nn.functional as F
from torch import nn


class FlashSelfAttention(nn.Module):
    """Fused attention; attention_dropout is the rate in training."""

    def __init__(self, causal=False, softmax_scale=None, attention_dropout=0.0):
        super().__init__()
        self.causal = causal
        self.softmax_scale = softmax_scale
        self.dropout_p = attention_dropout

    def forward(self, q, k, v):
        seqlen_q, seqlen_k = q.shape[2], k.shape[2]
        if self.training:
            assert seqlen_k == seqlen_q, "training takes whole sequences"
            is_causal = self.causal
        else:
            # a decoding step has one query that may look at every key
            is_causal = self.causal and seqlen_q == seqlen_k
            self.dropout_p = 0.0

        return F.scaled_dot_product_attention(
            q, k, v, dropout_p=self.dropout_p, is_causal=is_causal, scale=self.softmax_scale
        )


class ParallelAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads = config.num_attention_heads
        self.query_key_value = nn.Linear(config.hidden_size, 3 * config.hidden_size)
        self.core_attention_flash = FlashSelfAttention(causal=True, attention_dropout=config.attention_dropout)
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, x):
        b, s, h = x.shape
        q, k, v = self.query_key_value(x).view(b, s, 3, self.heads, h // self.heads).permute(2, 0, 3, 1, 4)
        context = self.core_attention_flash(q, k, v)
        return self.dense(context.transpose(1, 2).reshape(b, s, h))


class GPTModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embedding = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(ParallelAttention(config) for _ in range(config.num_layers))
        self.norms = nn.ModuleList(nn.LayerNorm(config.hidden_size) for _ in range(config.num_layers))

    def forward(self, tokens, labels=None):
        x = self.embedding(tokens)
        for norm, layer in zip(self.norms, self.layers):
            x = x + layer(norm(x))
        logits = x @ self.embedding.weight.t()
        if labels is None:
            return logits
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten())
