"""A hand-written recurrent cell that predicts the next value of a stream, updated after every chunk."""
import torch

torch.manual_seed(9)

HIDDEN, CHUNK, LR = 12, 5, 0.02
w_in = (0.3 * torch.randn(1, HIDDEN)).requires_grad_()
w_rec = (0.1 * torch.randn(HIDDEN, HIDDEN)).requires_grad_()
w_out = (0.3 * torch.randn(HIDDEN, 1)).requires_grad_()
params = [w_in, w_rec, w_out]

stream = torch.sin(torch.arange(0, 160, dtype=torch.float32) * 0.3) + 0.02 * torch.randn(160)
hidden = torch.zeros(1, HIDDEN)

for k in range(24):
    window = stream[k * CHUNK:(k + 1) * CHUNK + 1]
    loss = 0.0
    for t in range(CHUNK):
        hidden = torch.tanh(window[t].view(1, 1) @ w_in + hidden @ w_rec)
        loss = loss + (hidden @ w_out - window[t + 1]).pow(2).mean()
    loss = loss / CHUNK
    loss.backward(retain_graph=True)  # verify: retain-graph-in-loop confirmed
    for p in params:
        p.data -= LR * p.grad.clamp(-1, 1)
        p.grad = None
    if k % 6 == 0:
        print(f"chunk {k}: {loss.item():.4f}")
