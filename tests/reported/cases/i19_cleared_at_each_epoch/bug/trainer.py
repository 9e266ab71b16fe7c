import torch

class Trainer:
    def __init__(self, args, model, train_loader):
        self.args = args
        self.model = model
        self.train_loader = train_loader
        self.window = max(round(args.samples_per_step / args.batch), 1)
        self.optimizer = torch.optim.SGD(model.parameters(), lr=args.lr0, momentum=0.937, nesterov=True)
        self.scaler = torch.amp.GradScaler("cuda", enabled=args.amp)
        self.scheduler = torch.optim.lr_scheduler.LinearLR(self.optimizer, 1.0, 0.01, args.epochs)

    def take_step(self):
        self.scaler.unscale_(self.optimizer)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), max_norm=10.0)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()

    def train(self):
        batches = len(self.train_loader)
        last_step = -1
        self.optimizer.zero_grad()
        for epoch in range(self.args.epochs):
            self.model.train()
            self.optimizer.zero_grad()
            for i, batch in enumerate(self.train_loader):
                done = i + batches * epoch
                with torch.amp.autocast("cuda", enabled=self.args.amp):
                    loss = self.model(batch["img"].cuda(), batch["cls"].cuda())
                self.scaler.scale(loss).backward()
                if done - last_step >= self.window:
                    self.take_step()
                    last_step = done
            self.scheduler.step()
