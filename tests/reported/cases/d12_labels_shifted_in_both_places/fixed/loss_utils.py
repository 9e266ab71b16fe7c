import torch.nn.functional as F


def causal_lm_loss(logits, labels, vocab_size, ignore_index=-100, shift_labels=None):
    logits = logits.float()
    if shift_labels is None:
        labels = F.pad(labels, (0, 1), value=ignore_index)
        shift_labels = labels[..., 1:].contiguous()
    logits = logits.reshape(-1, vocab_size)
    shift_labels = shift_labels.reshape(-1)
    return F.cross_entropy(logits, shift_labels, ignore_index=ignore_index)


LOSSES = {"ForCausalLM": causal_lm_loss}
