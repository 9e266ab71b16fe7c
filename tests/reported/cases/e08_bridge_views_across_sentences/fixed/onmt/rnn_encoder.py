import torch
from torch import nn
from torch.nn import functional as F


class RNNEncoder(nn.Module):
    def __init__(self, rnn_type, bidirectional, num_layers, hidden_size, embeddings, use_bridge=False):
        super().__init__()
        num_directions = 2 if bidirectional else 1
        assert hidden_size % num_directions == 0
        hidden_size = hidden_size // num_directions
        self.embeddings = embeddings
        self.rnn = getattr(nn, rnn_type)(embeddings.embedding_dim, hidden_size, num_layers,
                                         bidirectional=bidirectional)
        self.use_bridge = use_bridge
        if self.use_bridge:
            self._initialize_bridge(rnn_type, hidden_size, num_layers * num_directions)

    def forward(self, src):
        memory_bank, encoder_final = self.rnn(self.embeddings(src))
        if self.use_bridge:
            encoder_final = self._bridge(encoder_final)
        return encoder_final, memory_bank

    def _initialize_bridge(self, rnn_type, hidden_size, num_layers):
        number_of_states = 2 if rnn_type == "LSTM" else 1
        self.total_hidden_dim = hidden_size * num_layers
        self.bridge = nn.ModuleList([
            nn.Linear(self.total_hidden_dim, self.total_hidden_dim, bias=True)
            for _ in range(number_of_states)])

    def _bridge(self, hidden):
        """Forward hidden state through bridge."""
        def bottle_hidden(linear, states):
            size = states.size()
            result = linear(states.permute(1, 0, 2).reshape(size[1], self.total_hidden_dim))
            return F.relu(result).view(size[1], size[0], size[2]).permute(1, 0, 2).contiguous()

        if isinstance(hidden, tuple):  # LSTM
            return tuple(bottle_hidden(layer, hidden[ix]) for ix, layer in enumerate(self.bridge))
        return bottle_hidden(self.bridge[0], hidden)


class RNNDecoder(nn.Module):
    def __init__(self, rnn_type, num_layers, hidden_size, embeddings):
        super().__init__()
        self.embeddings = embeddings
        self.rnn = getattr(nn, rnn_type)(embeddings.embedding_dim, hidden_size, num_layers)
        self.generator = nn.Linear(hidden_size, embeddings.num_embeddings)

    def forward(self, tgt, state):
        output, _ = self.rnn(self.embeddings(tgt), state)
        return self.generator(output)
