import torch


class Forecaster:
    def build(self):
        raise NotImplementedError

    def fit(self, batches):
        self.net = self.build()
        optimizer = torch.optim.SGD(self.net.parameters(), lr=0.01)
        running = 0.0
        for x, y in batches:
            optimizer.zero_grad()
            loss = (self.net(x) - y).pow(2).mean()
            loss.backward()
            optimizer.step()
            running += self.shown(loss)
        return running / len(batches)

    def shown(self, loss):
        return loss.item()
