from torch import nn


class Features(nn.Module):
    """A network, and what some of its layers gave."""

    def __init__(self, net, names):
        super().__init__()
        self.net = net
        self.found = {}
        for name, layer in net.named_modules():
            if name in names:
                layer.register_forward_hook(self.hook(name))

    def hook(self, name):
        def keep(layer, given, output):
            self.found[name] = output

        return keep

    def forward(self, x):
        self.found.clear()
        return self.net(x), self.found
