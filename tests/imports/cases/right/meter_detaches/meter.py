from collections import deque


class Window:
    def __init__(self, size):
        self.items = deque(maxlen=size)
        self.all_time = 0.0

    def push(self, value):
        value = value.detach() if hasattr(value, "detach") else value
        self.items.append(value)
        self.all_time = self.all_time + value

    def __str__(self):
        return "mean %.4f" % (float(sum(self.items)) / len(self.items))
