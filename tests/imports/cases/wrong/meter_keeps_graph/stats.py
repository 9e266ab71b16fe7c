class Stats:
    def __init__(self, *names):
        self.rows = {n: [] for n in names}

    def record(self, **values):
        for name, v in values.items():
            self.rows[name].append(v)

    def table(self):
        return "\n".join("%s %.4f" % (n, float(sum(v)) / len(v)) for n, v in self.rows.items())
