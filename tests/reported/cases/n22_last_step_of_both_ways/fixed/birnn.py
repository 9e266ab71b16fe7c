import torch
import torch.nn as nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

sequence_length = 28
input_size = 28
hidden_size = 32
num_layers = 2
num_classes = 10


class BiRNN(nn.Module):
    def __init__(self, input_size, hidden_size, num_layers, num_classes):
        super().__init__()
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.lstm = nn.LSTM(input_size, hidden_size, num_layers, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(hidden_size * 2, num_classes)

    def forward(self, x):
        h0 = torch.zeros(self.num_layers * 2, x.size(0), self.hidden_size).to(x.device)
        c0 = torch.zeros(self.num_layers * 2, x.size(0), self.hidden_size).to(x.device)
        out, state = self.lstm(x, (h0, c0))
        out = self.fc(torch.cat((state[0][-2], state[0][-1]), dim=1))
        return out


def loader(n):
    return [(torch.randn(16, 1, 28, 28), torch.randint(0, 10, (16,))) for _ in range(n)]


model = BiRNN(input_size, hidden_size, num_layers, num_classes).to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

for epoch in range(2):
    model.train()
    for images, labels in loader(20):
        images = images.reshape(-1, sequence_length, input_size).to(device)
        labels = labels.to(device)
        loss = criterion(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

model.eval()
with torch.no_grad():
    correct = total = 0
    for images, labels in loader(5):
        outputs = model(images.reshape(-1, sequence_length, input_size).to(device))
        correct += (outputs.argmax(1).cpu() == labels).sum().item()
        total += labels.size(0)
    print(correct / total)
