def weights(q, k):
    scores = q @ k.transpose(1, 2) / q.shape[-1] ** 0.5
    return scores.softmax(dim=-1)
