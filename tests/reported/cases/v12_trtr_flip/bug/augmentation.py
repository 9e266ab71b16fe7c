from collections import namedtuple

import cv2
import numpy as np

Corner = namedtuple("Corner", "x1 y1 x2 y2")


class Augmentation:
    def __init__(self, shift, flip):
        self.shift = shift
        self.flip = flip

    def _crop(self, image, box, size):
        x1, y1, x2, y2 = [int(v) for v in box]
        return cv2.resize(image[y1:y2, x1:x2], (size, size))

    def _flip_aug(self, image, bbox, mask):
        image = cv2.flip(image, 1)
        width = image.shape[1]
        bbox = Corner(width - 1 - bbox.x2, bbox.y1, width - 1 - bbox.x1, bbox.y2)
        bbox = Corner(width - 1 - mask[2], mask[1], width - 1 - mask[0], mask[3])
        return image, bbox, mask

    def __call__(self, image, bbox, mask, size):
        if self.shift:
            shift = np.random.randint(-self.shift, self.shift, 2)
            bbox = Corner(bbox.x1 - shift[0], bbox.y1 - shift[1], bbox.x2 - shift[0], bbox.y2 - shift[1])
        if self.flip and np.random.random() > 0.5:
            image, bbox, mask = self._flip_aug(image, bbox, mask)
        return image, bbox, mask
