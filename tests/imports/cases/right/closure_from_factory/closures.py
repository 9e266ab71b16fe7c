def closure_for(module, optimizer):
    def closure():
        optimizer.zero_grad()
        out = module()
        out.backward()
        return out
    return closure
