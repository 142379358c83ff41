# SPDX-License-Identifier: Apache-2.0
"""Draws for the corpus that are the same in every version of Python: a 64-bit mixing generator
(SplitMix64), since what random.choice does with its bits has changed before."""

MASK = (1 << 64) - 1


def mixed(state):
    while True:
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        yield z ^ (z >> 31)


class Draw:
    def __init__(self, seed):
        self.bits = mixed(seed & MASK).__next__

    def below(self, n):
        return self.bits() % n

    def one(self, seq):
        return seq[self.bits() % len(seq)]

    def chance(self, share):
        return self.bits() < share * MASK

    def shuffle(self, seq):
        for i in range(len(seq) - 1, 0, -1):
            j = self.below(i + 1)
            seq[i], seq[j] = seq[j], seq[i]
