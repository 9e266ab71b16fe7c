def evaluate(net, loader):
    net.eval()
    n = 0
    for x, y in loader:
        n += (net(x).argmax(1) == y).sum().item()
    return n
