import torch
from hooks import HOOKS
from loops import Loop
from torch import nn

OPTIONS = {"hooks": [{"kind": "Update"}, {"kind": "Decay", "factor": 0.8}]}


def main(options=OPTIONS):
    torch.manual_seed(0)
    batches = [(torch.randn(8, 4), torch.randn(8, 1)) for _ in range(10)]
    net = nn.Linear(4, 1)
    hooks = [HOOKS.build(item) for item in options["hooks"]]
    print(Loop(net, torch.optim.SGD(net.parameters(), lr=0.01), hooks).run(batches, 3))


if __name__ == "__main__":
    main()
