"""Two curve fits with L-BFGS in double precision, for a numerical methods assignment."""
import torch

torch.set_num_threads(1)
torch.manual_seed(5)
torch.set_default_dtype(torch.float64)

t = torch.linspace(0, 3, 60)
data = 1.7 * torch.exp(-0.8 * t) + 0.3 + 0.01 * torch.randn(60)


def decay(theta):
    a, k, c = theta
    return a * torch.exp(-k * t) + c


def fit_decay(n_outer):
    theta = torch.tensor([1.0, 0.5, 0.0], requires_grad=True)
    opt = torch.optim.LBFGS([theta], lr=0.05, max_iter=3)

    def closure():
        obj = (decay(theta) - data).pow(2).mean()
        obj.backward()  # verify: missing-zero-grad confirmed
        return obj

    for _ in range(n_outer):
        value = opt.step(closure)
    return theta.detach(), value.item()


def fit_poly(n_outer, degree=3):
    coef = torch.zeros(degree + 1, requires_grad=True)
    basis = torch.stack([t ** k for k in range(degree + 1)], 1)
    opt = torch.optim.LBFGS([coef], lr=0.3, max_iter=3)

    def closure():
        coef.grad = None
        obj = (basis @ coef - data).pow(2).mean()
        obj.backward()  # verify: missing-zero-grad refuted
        return obj

    for _ in range(n_outer):
        value = opt.step(closure)
    return coef.detach(), value.item()


if __name__ == "__main__":
    print("poly ", fit_poly(14))
    print("decay", fit_decay(14))
