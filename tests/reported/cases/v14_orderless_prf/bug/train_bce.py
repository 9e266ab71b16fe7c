import numpy as np
import torch
from sklearn.metrics import precision_recall_fscore_support
from torch.utils.data import DataLoader


def validate(model, loader, threshold=0.5):
    model.eval()
    preds = []
    targets = []
    with torch.no_grad():
        for images, labels in loader:
            out = torch.sigmoid(model(images))
            preds.append((out > threshold).cpu().numpy())
            targets.append(labels.cpu().numpy())
    preds = np.concatenate(preds)
    targets = np.concatenate(targets)
    o_p, o_r, o_f1, _ = precision_recall_fscore_support(preds, targets, average="micro")
    c_p, c_r, c_f1, _ = precision_recall_fscore_support(preds, targets, average="macro")
    return o_p, o_r, o_f1, c_p, c_r, c_f1


def main(model, train_set, val_set, epochs=20):
    train_loader = DataLoader(train_set, batch_size=32, shuffle=True)
    val_loader = DataLoader(val_set, batch_size=32)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    criterion = torch.nn.BCEWithLogitsLoss()
    for epoch in range(epochs):
        model.train()
        for images, labels in train_loader:
            optimizer.zero_grad()
            loss = criterion(model(images), labels)
            loss.backward()
            optimizer.step()
        scores = validate(model, val_loader)
        print(epoch, "precision", scores[0], "recall", scores[1])
