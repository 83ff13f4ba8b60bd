"""Stop signals that have been met in good order, piece by piece: a long count may be ended and taken up again."""
import json
import os


class Tally:
    def __init__(self, path=None):
        """With a path, goes on from what the file has."""
        self.path, self.training, self.loading, self.slowest = path, 0, 0, 0.0
        if path and os.path.exists(path):
            with open(path) as file:
                for line in file:
                    self._count(**json.loads(line))

    def _count(self, training, loading, slowest):
        self.training += training
        self.loading += loading
        self.slowest = max(self.slowest, slowest)

    def add(self, **piece):
        self._count(**piece)
        if self.path:
            with open(self.path, "a") as file:
                file.write(json.dumps(piece) + "\n")

    def __str__(self):
        return (f"{self.training} stop signals in training, {self.loading} more while a process loaded; slowest stop "
                f"{self.slowest:.2f} s")
