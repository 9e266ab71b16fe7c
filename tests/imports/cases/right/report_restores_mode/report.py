def score(network, x):
    mode = network.training
    network.eval()
    right = network.tag(x).eq(x[:, :3].argmax(1)).float().mean().item()
    network.train(mode)
    return right
