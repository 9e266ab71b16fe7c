from torch.nn.utils import clip_grad_norm_


def prepare_gradients(module, loss, limit):
    """Backward and clipping; the norm before it was clipped."""
    loss.backward()
    return float(clip_grad_norm_(module.parameters(), limit))
