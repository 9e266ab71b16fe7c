import torch
from torch.nn import BCEWithLogitsLoss

from metrics import error_rate, f1_per_frame
from models.sed import SedNet


def loader(count):
    return [(torch.randn(4, 100, 40), torch.randint(0, 2, (4, 100, 6)).float()) for _ in range(count)]


def main(epochs=3):
    model = SedNet()
    objective = BCEWithLogitsLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(epochs):
        model.train()
        for x, y in loader(10):
            optimizer.zero_grad()
            loss = objective(model(x), y)
            loss.backward()
            optimizer.step()
        model.eval()
        f1, er = [], []
        with torch.no_grad():
            for x, y in loader(3):
                y_hat = model(x)
                f1.append(f1_per_frame(y_hat, y))
                er.append(error_rate(y_hat, y))
        print(epoch, sum(f1) / len(f1), sum(er) / len(er))


if __name__ == "__main__":
    main()
