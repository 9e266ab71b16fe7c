import torch

from tagger import PromptTagger
from trainer import TagTrainer


def main():
    torch.manual_seed(0)
    data = []
    for _ in range(12):
        words = torch.randint(40, (8, 7))
        data.append((words, torch.randn(8, 6), words % 4))
    model = PromptTagger()
    TagTrainer(model, data).train()
    return model


if __name__ == "__main__":
    main()
