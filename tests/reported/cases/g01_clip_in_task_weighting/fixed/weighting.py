import torch
import torch.nn.functional as F


class AdaptiveWeights:
    """Keeps one logit per task and moves it by the change of the log losses."""

    def __init__(self, num_tasks, lr=0.025, decay=0.01, clip=1.0):
        self.scores = torch.zeros(num_tasks, requires_grad=True)
        self.optimizer = torch.optim.Adam([self.scores], lr=lr, weight_decay=decay)
        self.floor = torch.zeros(num_tasks)
        self.clip = clip

    def weighted(self, losses):
        self.last = losses.detach()
        mix = F.softmax(self.scores, -1).detach()
        excess = losses - self.floor + 1e-8
        scale = (mix / excess).sum().detach()
        return (excess.log() * mix / scale).sum()

    def backward(self, losses, shared=None):
        loss = self.weighted(losses)
        loss.backward()
        if self.clip > 0 and shared is not None:
            torch.nn.utils.clip_grad_norm_(shared, self.clip)
        return loss

    def update(self, losses):
        delta = (self.last - self.floor + 1e-8).log() - (losses - self.floor + 1e-8).log()
        with torch.enable_grad():
            grad, = torch.autograd.grad(F.softmax(self.scores, -1), self.scores, grad_outputs=delta)
        self.optimizer.zero_grad()
        self.scores.grad = grad
        self.optimizer.step()
