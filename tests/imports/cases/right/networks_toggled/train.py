import torch
from trainer import GAN


def main():
    gan = GAN()
    for epoch in range(2):
        for _ in range(3):
            gan.step(torch.randn(5, 4))


if __name__ == "__main__":
    main()
