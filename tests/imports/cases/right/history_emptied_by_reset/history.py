class History:
    def __init__(self):
        self._values = {"count": [], "loss": []}

    def reset(self):
        for key in self._values.keys():
            self._values[key].clear()

    def log(self, key, value):
        self._values[key].append(value)

    def summary(self):
        mean = sum(self._values["loss"]) / len(self._values["loss"])
        self._values["loss"].append(mean)
