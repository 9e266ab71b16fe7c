"""A demo service: the main thread serves predictions while a worker thread keeps training."""
import queue
import threading

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(30)


class Learner:
    def __init__(self):
        self.model = nn.Sequential(nn.Linear(3, 12), nn.Tanh(), nn.Linear(12, 1))
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.inbox = queue.Queue()
        self.losses = []

    def work(self):
        while True:
            item = self.inbox.get()
            if item is None:
                return
            x, y = item
            self.opt.zero_grad()
            loss = nn.functional.mse_loss(self.model(x), y)
            loss.backward()
            self.opt.step()
            self.losses.append(loss.item())


def serve():
    learner = Learner()
    with torch.no_grad():  # verify: training-under-no-grad refuted
        worker = threading.Thread(target=learner.work)
        worker.start()
        for _ in range(20):
            x = torch.randn(16, 3)
            learner.inbox.put((x, x.sin().sum(1, keepdim=True)))
        learner.inbox.put(None)
        worker.join()
        answer = learner.model(torch.zeros(1, 3))
    print("prediction at the origin", answer.item())
    print("loss %.4f -> %.4f" % (learner.losses[0], learner.losses[-1]))


serve()
