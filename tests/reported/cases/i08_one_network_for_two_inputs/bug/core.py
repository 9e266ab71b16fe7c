import torch.nn as nn
def mlp(in_size, width, n_layers):
    channels = [in_size] + n_layers * [width]
    net = []
    for i in range(n_layers):
        net.append(nn.Linear(channels[i], channels[i + 1]))
        net.append(nn.LayerNorm(channels[i + 1]))
        net.append(nn.LeakyReLU())
    return nn.Sequential(*net)
def gru(n_input, width):
    return nn.GRU(n_input * width, width, batch_first=True)
