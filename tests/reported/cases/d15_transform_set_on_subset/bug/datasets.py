import torch
from torch.utils.data import Dataset, random_split


class Digits(Dataset):
    def __init__(self, count, transform=None, seed=0):
        generator = torch.Generator().manual_seed(seed)
        self.labels = torch.randint(0, 4, (count,), generator=generator)
        self.images = 0.5 * torch.randn(count, 1, 12, 12, generator=generator)
        for image, label in zip(self.images, self.labels):
            row, column = divmod(int(label), 2)
            image[0, 5 * row + 2 : 5 * row + 5, 5 * column + 2 : 5 * column + 5] += 1.0
        self.transform = transform

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        image = self.images[index]
        if self.transform is not None:
            image = self.transform(image)
        return image, self.labels[index]


class Compose:
    def __init__(self, *steps):
        self.steps = steps

    def __call__(self, image):
        for step in self.steps:
            image = step(image)
        return image


class RandomShift:
    def __init__(self, pixels):
        self.pixels = pixels
        self.calls = 0

    def __call__(self, image):
        self.calls += 1
        dy, dx = torch.randint(-self.pixels, self.pixels + 1, (2,)).tolist()
        return image.roll((dy, dx), dims=(-2, -1))


def standardise(image):
    return (image - image.mean()) / image.std()


def get_datasets(split_train_val, augmentation, seed=0):
    train_val = Digits(300, seed=1)
    size = int(split_train_val * len(train_val))
    train_dataset, val_dataset = random_split(train_val, [len(train_val) - size, size],
                                              generator=torch.Generator().manual_seed(seed))
    train_dataset.dataset.transform = Compose(augmentation, standardise)
    val_dataset.dataset.transform = standardise
    return train_dataset, val_dataset, Digits(200, standardise, seed=2)
