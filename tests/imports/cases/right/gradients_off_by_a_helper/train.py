from models import Net
from modes import grad_off, grad_on
from loading import get_loader


def evaluate(net, loader):
    grad_off()
    net.eval()
    n = 0
    for x, y in loader:
        n += (net(x).argmax(1) == y).sum().item()
    grad_on()
    return n


print(evaluate(Net(), get_loader()))
