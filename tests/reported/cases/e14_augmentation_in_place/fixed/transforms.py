import numpy as np


def color_norm(im, mean, std):
    """Performs per-channel normalization (CHW format)."""
    for i in range(im.shape[0]):
        im[i] = im[i] - mean[i]
        im[i] = im[i] / std[i]
    return im


def zero_pad(im, pad_size):
    """Performs zero padding (CHW format)."""
    return np.pad(im, ((0, 0), (pad_size, pad_size), (pad_size, pad_size)), mode="constant")


def horizontal_flip(im, p):
    """Performs horizontal flip (CHW format)."""
    return im[:, :, ::-1] if np.random.uniform() < p else im


def random_crop(im, size, pad_size=0):
    """Performs random crop (CHW format)."""
    im = zero_pad(im, pad_size) if pad_size > 0 else im
    y = np.random.randint(0, im.shape[1] - size + 1)
    x = np.random.randint(0, im.shape[2] - size + 1)
    return im[:, y:y + size, x:x + size]
