def accumulate(net, x):
    out, _ = net(x)
    loss = (out[:, -1] - x.mean()).pow(2).mean()
    loss.backward()
    return loss.item()
