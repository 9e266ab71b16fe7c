from data import make_loader
from models import Net
from trainer import fit

fit(Net(dropout=0.0), make_loader())
