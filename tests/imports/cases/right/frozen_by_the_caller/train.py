from evalu import evaluate
from freeze import freeze
from models import Net
from loading import get_loader

net = Net()
freeze(net)
print(evaluate(net, get_loader()))
