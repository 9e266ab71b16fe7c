"""Training loop driven by callbacks; one of them clears the gradients, another keeps the curve."""
import torch
import torch.nn as nn

torch.set_num_threads(1)
torch.manual_seed(11)


class Callback:
    def on_after_backward(self, ctx):
        pass

    def on_batch_end(self, ctx):
        pass


class ClearGrads(Callback):
    def on_after_backward(self, ctx):
        ctx["opt"].zero_grad()  # verify: cleared-before-step confirmed


class Curve(Callback):
    def __init__(self):
        self.store = {"train": {"loss": []}}

    def _push(self, split, name, value):
        self.store[split][name].append(value)  # verify: undetached-accumulation refuted

    def log(self, name, value):
        self._push("train", name, value.detach().clone())

    def on_batch_end(self, ctx):
        self.log("loss", ctx["loss"])


class Runner:
    def __init__(self, model, callbacks):
        self.ctx = {"model": model, "opt": torch.optim.RMSprop(model.parameters(), lr=3e-3)}
        self.callbacks = callbacks

    def fire(self, event):
        for cb in self.callbacks:
            getattr(cb, event)(self.ctx)

    def run(self, steps):
        for _ in range(steps):
            x = torch.randn(32, 10)
            target = (x.sum(1) > 0).long()
            self.ctx["loss"] = nn.functional.cross_entropy(self.ctx["model"](x), target)
            self.ctx["loss"].backward()
            self.fire("on_after_backward")
            self.ctx["opt"].step()
            self.fire("on_batch_end")


net = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 2))
curve = Curve()
Runner(net, [ClearGrads(), curve]).run(30)
losses = torch.stack(curve.store["train"]["loss"])
print("first %.3f last %.3f" % (losses[0], losses[-1]))
