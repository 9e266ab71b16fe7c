import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm


class TemporalBlock(nn.Module):
    def __init__(self, n_inputs, n_outputs, kernel_size, dilation):
        super().__init__()
        self.pad = (kernel_size - 1) * dilation
        self.conv = weight_norm(nn.Conv1d(n_inputs, n_outputs, kernel_size, padding=self.pad, dilation=dilation))
        self.downsample = nn.Conv1d(n_inputs, n_outputs, 1) if n_inputs != n_outputs else nn.Identity()

    def forward(self, x):
        return torch.relu(self.conv(x)[:, :, :-self.pad] + self.downsample(x))


class TCN(nn.Module):
    def __init__(self, input_size, num_channels, kernel_size):
        super().__init__()
        sizes = [input_size, *num_channels]
        self.tcn = nn.Sequential(*[TemporalBlock(sizes[i], sizes[i + 1], kernel_size, 2 ** i)
                                   for i in range(len(num_channels))])
        self.linear = nn.Linear(num_channels[-1], 1)

    def forward(self, inputs):
        return self.linear(self.tcn(inputs)[:, :, -1]).squeeze(-1)
