import torch
from factory import make_agent


def main(name="reinforce"):
    torch.manual_seed(0)
    agent = make_agent(name)
    total = 0.0
    for _ in range(5):
        total += agent.learn(torch.randn(8, 4), torch.randint(0, 2, (8,)), torch.randn(8))
    print(total)


if __name__ == "__main__":
    main()
