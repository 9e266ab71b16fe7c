from argparse import Namespace

import torch

from vse import PairEmbedding


def pairs(n, opt, mix):
    z = torch.randn(n, 6)
    images = z @ mix[0] + 0.3 * torch.randn(n, opt.img_dim)
    captions = z @ mix[1] + 0.3 * torch.randn(n, opt.txt_dim)
    return images, captions


def validate(opt, val_loader, model):
    model.set_eval()
    with torch.no_grad():
        img, txt = model.embed(*val_loader)
    rank = (img @ txt.t()).argsort(1, descending=True)
    return (rank[:, 0] == torch.arange(len(rank))).float().mean().item()


def train(opt, train_loader, model, epoch, val_loader):
    model.set_train()
    for i, (images, captions) in enumerate(train_loader):
        loss = model.learn(images, captions)
        if model.batches_seen % opt.log_every == 0:
            print(f"epoch {epoch} [{i}/{len(train_loader)}] loss {loss:.4f}")
        if model.batches_seen % opt.val_every == 0:
            validate(opt, val_loader, model)


def main():
    torch.manual_seed(0)
    opt = Namespace(img_dim=20, txt_dim=14, embed_size=10, margin=0.2, learning_rate=2e-3,
                    num_epochs=3, log_every=20, val_every=5)
    mix = torch.randn(6, opt.img_dim), torch.randn(6, opt.txt_dim)
    train_loader = [pairs(32, opt, mix) for _ in range(40)]
    val_loader = pairs(64, opt, mix)
    model = PairEmbedding(opt)
    for epoch in range(opt.num_epochs):
        train(opt, train_loader, model, epoch, val_loader)
        print("recall@1 %.3f" % validate(opt, val_loader, model))
    return model


if __name__ == "__main__":
    main()
