class Fitting:
    def __init__(self, net, optimizer, watchers=()):
        self.net = net
        self.optimizer = optimizer
        self.watchers = watchers

    def run(self, batches):
        for x in batches:
            loss = (self.net(x) - x.mean(1, keepdim=True)).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            for watcher in self.watchers:
                watcher.saw(loss)
