class Hooks:
    def __init__(self, optimizer, every):
        self.optimizer, self.every = optimizer, every
        self.steps = 0

    def after_backward(self, step, loss):
        self.optimizer.zero_grad(set_to_none=False)
        if step % self.every == 0:
            print(step, "%.4f" % loss.item())

    def after_step(self, step):
        self.steps += 1
