import numpy as np
import torch
from torch.utils.data import DataLoader


@torch.no_grad()
def get_all_preds(model, loader):
    all_preds = []
    labels = []
    for item, label in loader:
        preds = model(item)
        all_preds += preds.argmax(1).tolist()
        labels += label.tolist()
    return all_preds, labels


def explain(model, explainer, test_dataset):
    test_loader = DataLoader(test_dataset, batch_size=1, shuffle=False)
    observation_01, label_01 = test_dataset[0]
    model.eval()
    y_pred, labels = get_all_preds(model, test_loader)
    label_01 = np.array([y_pred[0]])
    print(observation_01.shape, label_01.shape)
    exp = explainer.explain(observation_01.numpy(), label_01)
    return exp, label_01


def train(model, train_dataset, epochs=10):
    loader = DataLoader(train_dataset, batch_size=16, shuffle=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    criterion = torch.nn.CrossEntropyLoss()
    model.train()
    for _ in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
