import torch
from data import make_loader
from evaluator import Evaluator
from models import Net


def report(evaluator):
    print(evaluator.run())


with torch.no_grad():
    report(Evaluator(Net(), make_loader()))
