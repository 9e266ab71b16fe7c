import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import d2l

BOS, EOS, PAD, VOCAB = 1, 2, 0, 24


def load_data_nmt(batch_size, num_steps, num_examples=240):
    X = torch.zeros(num_examples, num_steps, dtype=torch.long)
    Y, lengths = X.clone(), torch.randint(2, num_steps - 1, (num_examples,))
    for i, n in enumerate(lengths.tolist()):
        words = torch.randint(3, VOCAB, (n,))
        X[i, :n], X[i, n] = words, EOS
        Y[i, :n], Y[i, n] = words.flip(0), EOS
    dataset = TensorDataset(X, lengths + 1, Y, lengths + 1)
    return DataLoader(dataset, batch_size, shuffle=True)


def train_seq2seq(net, data_iter, lr, num_epochs):
    optimizer = torch.optim.Adam(net.parameters(), lr=lr)
    loss = d2l.MaskedSoftmaxCELoss()
    net.train()
    for epoch in range(num_epochs):
        metric = d2l.Accumulator(2)  # Sum of training loss, no. of tokens
        for X, X_valid_len, Y, Y_valid_len in data_iter:
            optimizer.zero_grad()
            bos = torch.full((Y.shape[0], 1), BOS)
            dec_input = torch.cat([bos, Y[:, :-1]], 1)  # Teacher forcing
            Y_hat = net(X, dec_input, X_valid_len)
            l = loss(Y_hat, Y, Y_valid_len)
            l.sum().backward()
            d2l.grad_clipping(net, 1)
            num_tokens = Y_valid_len.sum()
            optimizer.step()
            with torch.no_grad():
                metric.add(l.sum(), num_tokens)
        print(f'epoch {epoch + 1} loss {metric[0] / metric[1]:.3f}')


@torch.no_grad()
def perplexity(net, data_iter):
    net.eval()
    total, count = 0.0, 0
    for X, X_valid_len, Y, Y_valid_len in data_iter:
        dec_input = torch.cat([torch.full((Y.shape[0], 1), BOS), Y[:, :-1]], 1)
        logits = net(X, dec_input, X_valid_len)
        total += F.cross_entropy(logits.flatten(0, 1), Y.flatten(), ignore_index=PAD, reduction='sum').item()
        count += Y_valid_len.sum().item()
    return total / count


if __name__ == '__main__':
    torch.manual_seed(0)
    batch_size, num_steps, lr, num_epochs = 32, 12, 0.005, 8
    train_iter = load_data_nmt(batch_size, num_steps)
    net = d2l.EncoderDecoder(VOCAB, 32, 32)
    train_seq2seq(net, train_iter, lr, num_epochs)
    print(f'cross-entropy per token {perplexity(net, train_iter):.3f}')
