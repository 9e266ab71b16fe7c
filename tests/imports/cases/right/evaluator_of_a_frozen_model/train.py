from data import make_loader
from evaluator import Evaluator
from models import Net

net = Net()
for p in net.parameters():
    p.requires_grad = False
print(Evaluator(net, make_loader()).run())
