import torch.nn as nn
class LoraConv(nn.Module):
    def __init__(self, conv, r):
        super().__init__()
        self.conv = conv
        self.down = nn.Conv2d(conv.in_channels, r, 1, bias=False)
        self.up = nn.Conv2d(r, conv.out_channels, 1, bias=False)
        nn.init.zeros_(self.up.weight)
    def forward(self, x):
        return self.conv(x) + self.up(self.down(x))
def put_adapters(model, r):
    for name, child in list(model.named_children()):
        if isinstance(child, nn.Conv2d):
            setattr(model, name, LoraConv(child, r))
        else:
            put_adapters(child, r)
