import torch
import torch.nn as nn


class TabFormerEmbeddings(nn.Module):
    def __init__(self, vocab, n_cols, field_width, out_width):
        super().__init__()
        self.word_embeddings = nn.Embedding(vocab, field_width, padding_idx=0)
        layer = nn.TransformerEncoderLayer(d_model=field_width, nhead=4, dim_feedforward=field_width, batch_first=True)
        self.transformer_encoder = nn.TransformerEncoder(layer, num_layers=1)
        self.lin_proj = nn.Linear(field_width * n_cols, out_width)
        self.n_cols = n_cols

    def forward(self, input_ids):
        embeds = self.word_embeddings(input_ids)
        shape = list(embeds.size())
        embeds = embeds.view([-1] + shape[2:])
        embeds = self.transformer_encoder(embeds)
        embeds = embeds.contiguous().view(shape[0:2] + [-1])
        return self.lin_proj(embeds)


class TabFormer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = TabFormerEmbeddings(200, 6, 16, 48)
        self.rnn = nn.GRU(48, 32, batch_first=True)
        self.head = nn.Linear(32, 2)

    def forward(self, rows):
        _, h = self.rnn(self.embed(rows))
        return self.head(h[-1])


def main():
    model = TabFormer()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()
    for _ in range(10):
        rows, fraud = torch.randint(0, 200, (8, 10, 6)), torch.randint(0, 2, (8,))
        optimizer.zero_grad()
        loss = criterion(model(rows), fraud)
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
