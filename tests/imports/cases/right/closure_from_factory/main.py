import torch
from closures import closure_for
from rosen import Rosenbrock

torch.manual_seed(0)
f = Rosenbrock()
opt = torch.optim.LBFGS(f.parameters(), lr=0.5, max_iter=5)
closure = closure_for(f, opt)
values = []
for _ in range(12):
    values.append(opt.step(closure).item())
print("%.5f -> %.5f" % (values[0], values[-1]))
