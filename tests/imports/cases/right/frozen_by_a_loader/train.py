from load import load_pretrained
from loading import get_loader


def main():
    net = load_pretrained()
    net.eval()
    n = 0
    for x, y in get_loader():
        n += (net(x).argmax(1) == y).sum().item()
    print(n)


main()
