import argparse

import torch
from torch import nn
from torch.nn import functional as F

from onmt.rnn_encoder import RNNDecoder, RNNEncoder


def build_model(opt):
    embeddings = nn.Embedding(opt.vocab_size, opt.rnn_size)
    encoder = RNNEncoder(opt.rnn_type, False, opt.layers, opt.rnn_size, embeddings, use_bridge=opt.bridge)
    decoder = RNNDecoder(opt.rnn_type, opt.layers, opt.rnn_size, embeddings)
    return encoder, decoder


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-vocab_size", type=int, default=20)
    parser.add_argument("-rnn_type", default="LSTM")
    parser.add_argument("-rnn_size", type=int, default=32)
    parser.add_argument("-layers", type=int, default=2)
    parser.add_argument("-batch_size", type=int, default=16)
    parser.add_argument("-train_steps", type=int, default=60)
    parser.add_argument("-bridge", action="store_true", default=True)
    opt = parser.parse_args([])

    torch.manual_seed(0)
    encoder, decoder = build_model(opt)
    optimizer = torch.optim.Adam(nn.ModuleList([encoder, decoder]).parameters(), lr=5e-3)
    for step in range(opt.train_steps):
        src = torch.randint(1, opt.vocab_size, (4, opt.batch_size))
        tgt = torch.cat([torch.zeros_like(src[:1]), src])
        state, _ = encoder(src)
        logits = decoder(tgt[:-1], state)
        loss = F.cross_entropy(logits.flatten(0, 1), tgt[1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 19:
            print(f"step {step + 1} loss {loss.item():.4f}")

    with torch.no_grad():
        src = torch.randint(1, opt.vocab_size, (4, opt.batch_size))
        other = src.clone()
        other[:, 1:] = torch.randint(1, opt.vocab_size, (4, opt.batch_size - 1))
        difference = encoder(src)[0][0][:, 0] - encoder(other)[0][0][:, 0]
    print(f"state of sentence 0 changes with the other sentences by {difference.abs().max().item():.4f}")


if __name__ == "__main__":
    main()
