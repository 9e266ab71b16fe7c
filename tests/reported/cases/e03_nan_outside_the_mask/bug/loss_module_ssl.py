import torch


def masked_l1_per_sample(student, teacher, mask):
    """L1 between latents, averaged over the tokens in mask, per sample."""
    per_token_loss = (student - teacher).abs().mean(dim=-1)
    mask = mask.to(per_token_loss.dtype)
    per_token_loss = per_token_loss * mask
    return per_token_loss.sum(dim=-1) / mask.sum(dim=-1).clamp(min=1)


class LossLatentSSLStudentTeacher:
    def __init__(self, weights):
        self.weights = weights

    def compute_loss(self, student, teacher, mask):
        losses = {"JEPA": masked_l1_per_sample(student, teacher.detach(), mask).mean()}
        return sum(self.weights[name] * value for name, value in losses.items()), losses
