def normalize(image, mean, std):
    image[...] = (image - mean) / std
    return image
