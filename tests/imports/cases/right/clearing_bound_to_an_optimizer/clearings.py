def clear(o):
    o.zero_grad()
