"""Statistics of sweeps against SciPy: statistics_against_scipy.py PROGRAM."""

import random
import subprocess
import sys

try:
    import numpy as np
    from scipy import stats
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)


def quantile(probability, degrees):
    """SciPy's, which is good to 1e-9 in some versions, after a Newton step on its distribution function."""
    t = stats.t.ppf(probability, degrees)
    return t - (stats.t.cdf(t, degrees) - probability) / stats.t.pdf(t, degrees)


def expected(level, a, b):
    def interval(values):
        centre = np.mean(values)
        reach = quantile((1 + level) / 2, len(values) - 1) * stats.sem(values)
        return centre, centre - reach, centre + reach

    return [*interval(a), *interval(a - b), *interval(np.log(a) - np.log(b)), stats.ttest_rel(a, b).pvalue]


def main(program):
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    generator = np.random.default_rng(seed)
    cases = []
    for count in [2, 3, 4, 5, 6, 10, 31, 200]:
        for level in [0.5, 0.9, 0.95, 0.999]:
            a = generator.lognormal(size=count)
            b = a * generator.lognormal(sigma=0.1, size=count)
            cases.append((level, a, b))
    text = "".join(
        " ".join([repr(level), *(f"{x!r} {y!r}" for x, y in zip(a.tolist(), b.tolist()))]) + "\n" for level, a, b in cases
    )
    lines = subprocess.run([program], input=text, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(lines) == len(cases), lines
    for (level, a, b), line in zip(cases, lines):
        got = [float(word) for word in line.split() if word not in ("mean", "difference", "ratio", "p")]
        got[6:9] = np.log(got[6:9])
        np.testing.assert_allclose(got, expected(level, a, b), rtol=1e-9, atol=1e-12, err_msg=f"{level} {a} {b}")
    print(f"{len(cases)} cases agree")


main(sys.argv[1])
