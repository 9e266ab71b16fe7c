class Table:
    def __init__(self):
        self.known = {}

    def register(self, cls):
        self.known[cls.__name__] = cls
        return cls

    def build(self, options):
        options = dict(options)
        kind = options.pop("kind")
        return self.known[kind](**options)


HOOKS = Table()


class Hook:
    def after_batch(self, loop):
        pass

    def after_epoch(self, loop):
        pass


@HOOKS.register
class Update(Hook):
    def after_batch(self, loop):
        loop.loss.backward()
        loop.optimizer.step()


@HOOKS.register
class Decay(Hook):
    def __init__(self, factor=0.9):
        self.factor = factor

    def after_epoch(self, loop):
        for group in loop.optimizer.param_groups:
            group["lr"] *= self.factor
