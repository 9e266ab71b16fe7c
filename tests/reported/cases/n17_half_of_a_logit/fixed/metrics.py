import torch


def f1_per_frame(y_hat, y_true):
    y_hat = y_hat.sigmoid().ge(0.5).float()
    tp = (y_hat * y_true).sum()
    fp = (y_hat * (1 - y_true)).sum()
    fn = ((1 - y_hat) * y_true).sum()
    return (2 * tp / (2 * tp + fp + fn).clamp(min=1)).item()


def error_rate(y_hat, y_true):
    y_hat = (y_hat.sigmoid() >= 0.5).float()
    return ((y_hat - y_true).abs().sum() / y_true.sum().clamp(min=1)).item()
