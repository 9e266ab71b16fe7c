import torch
import torch.nn as nn
import torch.nn.functional as F

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 32, 3)
        self.dropout = nn.Dropout(0.25)
        self.fc = nn.Linear(5408, 10)
    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv(x)), 2)
        return F.log_softmax(self.fc(self.dropout(x.flatten(1))), dim=1)

def run(model, device, train_loader, optimizer, epoch):
    model.run()
    scaler = torch.amp.GradScaler("cuda")
    for batch_idx, (data, target) in enumerate(train_loader):
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        with torch.amp.autocast("cuda"):
            output = model(data)
            loss = F.nll_loss(output, target)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        if batch_idx % 100 == 0:
            print(epoch, batch_idx, loss.item())

def main(train_loader):
    device = torch.device("cuda")
    model = Net().to(device)
    optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)
    for epoch in range(1, 15):
        run(model, device, train_loader, optimizer, epoch)
