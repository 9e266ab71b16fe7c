from data import make_loader
from models import Net
from trainer import fit

fit(Net(), make_loader())
