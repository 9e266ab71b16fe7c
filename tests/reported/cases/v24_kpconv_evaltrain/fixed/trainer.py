import torch
from utils import AverageMeter


class Trainer(object):
    def __init__(self, args):
        self.start_epoch = 0
        self.epoch = args.epoch
        self.model = args.model
        self.optimizer = args.optimizer
        self.scheduler = args.scheduler
        self.evaluate_metric = args.evaluate_metric
        self.train_loader = args.train_loader
        self.test_loader = args.test_loader
        self.best_loss = 1e7

    def train(self):
        self.model.train()
        for epoch in range(self.start_epoch, self.epoch):
            self.train_epoch(epoch)
            res = self.evaluate(epoch + 1)
            if res["loss"] < self.best_loss:
                self.best_loss = res["loss"]
                torch.save(self.model.state_dict(), "best_loss.pth")
            self.scheduler.step()

    def train_epoch(self, epoch):
        loss_meter = AverageMeter()
        num_iter = int(len(self.train_loader.dataset) // self.train_loader.batch_size)
        train_loader_iter = self.train_loader.__iter__()
        for iter in range(num_iter):
            inputs, labels = next(train_loader_iter)
            self.optimizer.zero_grad()
            loss = self.evaluate_metric(self.model(inputs), labels)
            loss.backward()
            self.optimizer.step()
            loss_meter.update(float(loss))
        print(epoch, loss_meter.avg)

    def evaluate(self, epoch):
        self.model.eval()
        loss_meter = AverageMeter()
        num_iter = int(len(self.test_loader.dataset) // self.test_loader.batch_size)
        test_loader_iter = self.test_loader.__iter__()
        with torch.no_grad():
            for iter in range(num_iter):
                inputs, labels = next(test_loader_iter)
                loss = self.evaluate_metric(self.model(inputs), labels)
                loss_meter.update(float(loss))
        self.model.train()
        return {"loss": loss_meter.avg}
