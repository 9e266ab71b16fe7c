class MeanMonitor:
    def __init__(self):
        self.n = 0
        self.total = 0.0

    def update(self, value):
        self.total += value
        self.n += 1

    @property
    def value(self):
        return self.total / self.n


class MovingMeanMonitor:
    def __init__(self, momentum=0.9):
        self.momentum = momentum
        self.value = None

    def update(self, value):
        self.value = value if self.value is None else self.momentum * self.value + (1 - self.momentum) * value


class Track:
    def __init__(self, monitor):
        self.monitor = monitor
        self.values = []

    def append(self, value):
        self.values.append(value)
        self.monitor.update(value)


class Tracker:
    def __init__(self):
        self.tracks = {}

    def track(self, name, monitor):
        self.tracks[name] = Track(monitor)
        return self.tracks[name]
