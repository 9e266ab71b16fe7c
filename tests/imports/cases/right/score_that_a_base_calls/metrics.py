def error(prediction, target):
    """The mean absolute error, as a number."""
    return (prediction - target).abs().mean().item()
