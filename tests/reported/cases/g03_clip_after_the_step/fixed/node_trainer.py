import time

import torch


class Profiler:
    def __init__(self):
        self.marks = {}

    def tick(self, name):
        self.marks[name] = time.time()


class NodeTrainer:
    def __init__(self, model, evaluator=None):
        self.net = model
        self.optimizer = None
        self.evaluator = evaluator
        self.clock = Profiler()

    def make_optimizer(self, lr, weight_decay=0.0):
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=lr, weight_decay=weight_decay)

    def fit(self, loader, num_epochs, val=None, grad_limit=None, norm_type=2.0):
        model = self.net
        for epoch in range(num_epochs):
            model.train()
            for feats, adj, labels in loader:
                loss = model.loss(feats, adj, labels)
                self.clock.tick("forward")
                self.optimizer.zero_grad()
                loss.backward()
                self.clock.tick("backward_done")
                if grad_limit is not None:
                    torch.nn.utils.clip_grad_norm_(model.parameters(), grad_limit, norm_type)
                self.optimizer.step()
                self.clock.tick("step_done")

            if val is not None and self.evaluator is not None:
                print(f"epoch {epoch} train {loss.item():.4f} val {self.evaluator(model, *val):.4f}")
