"""Verdicts of experiments against SciPy's tests: verdicts_against_scipy.py PROGRAM."""

import random
import subprocess
import sys

try:
    import numpy as np
    from scipy import stats
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

HOLDS, DOES_NOT, OPEN = 0, 1, 2


def interval(values, level):
    """SciPy's quantile is good to 1e-9 in some versions: a Newton step on its distribution function."""
    degrees = len(values) - 1
    t = stats.t.ppf((1 + level) / 2, degrees)
    t -= (stats.t.cdf(t, degrees) - (1 + level) / 2) / stats.t.pdf(t, degrees)
    reach = t * stats.sem(values)
    return np.mean(values), np.mean(values) - reach, np.mean(values) + reach


def above(values, threshold):
    """Two one-sided t tests against the threshold, each at 2.5 %."""
    if stats.ttest_1samp(values, threshold, alternative="greater").pvalue < 0.025:
        return HOLDS
    if stats.ttest_1samp(values, threshold, alternative="less").pvalue < 0.025:
        return DOES_NOT
    return OPEN


def alike(values, margin):
    """Equivalent where both one-sided tests, each at 5 %, reject; apart where one beyond the margin does."""
    def p(threshold, side):
        return stats.ttest_1samp(values, threshold, alternative=side).pvalue

    if max(p(-margin, "greater"), p(margin, "less")) < 0.05:
        return HOLDS
    if min(p(margin, "greater"), p(-margin, "less")) < 0.05:
        return DOES_NOT
    return OPEN


def steps_to(curve, target):
    """The first point from which on the curve stays at or below the target, by looking back from the end."""
    last_above = max((i for i, (_, value) in enumerate(curve) if value > target), default=-1)
    return curve[last_above + 1][0] if last_above + 1 < len(curve) else None


def faster(a, b, margin):
    """Ratios of steps along lines that fall to 0 at 1000 a and 1000 b steps, smoothed over 20 of 200 points."""
    steps = 10 * np.arange(1, 201)

    def smooth(reach):
        values = np.convolve(1 - steps / (1000 * reach), np.ones(20) / 20, mode="valid")
        return list(zip(steps[19:].tolist(), values.tolist()))

    ratios, never = [], 0
    for x, y in zip(a, b):
        of_a, of_b = smooth(x), smooth(y)
        target = of_b[-1][1]
        reached = steps_to(of_a, target + 1e-12)
        never += reached is None
        ratios.append((of_a[-1][0] if reached is None else reached) / of_b[-1][0])
    logarithms = np.log(ratios)
    if np.ptp(logarithms) == 0:
        value = ratios[0]
        answer = HOLDS if value < 1 - margin else DOES_NOT if value > 1 - margin else OPEN
    else:
        answer = (HOLDS, DOES_NOT, OPEN)[above(-logarithms, -np.log(1 - margin))]
    if answer == HOLDS and never:
        answer = OPEN
    return answer, np.exp(interval(logarithms, 0.95)) if np.ptp(logarithms) else [ratios[0]] * 3


def expected(margin, a, b):
    logarithms = np.log(a) - np.log(b)
    answer, ratio = faster(a, b, margin)
    return [
        (above(a - b, margin), interval(a - b, 0.95)),
        (above(b - a, margin), interval(b - a, 0.95)),
        (alike(a - b, margin), interval(a - b, 0.90)),
        (above(logarithms, np.log(1 + margin)), np.exp(interval(logarithms, 0.95))),
        (above(-logarithms, -np.log(1 - margin)), np.exp(interval(logarithms, 0.95))),
        (answer, ratio),
    ]


def main(program):
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    generator = np.random.default_rng(seed)
    cases = []
    for count in [5, 6, 10]:
        for difference in [-0.3, -0.05, 0, 0.05, 0.3]:
            for spread in [0.01, 0.1, 0.5]:
                for margin in [0.02, 0.1, 0.3]:
                    b = generator.uniform(1, 3, size=count)
                    a = b * np.exp(difference + spread * generator.normal(size=count))
                    cases.append((margin, a, b))
    text = "".join(
        " ".join([repr(margin), *(f"{x!r} {y!r}" for x, y in zip(a.tolist(), b.tolist()))]) + "\n" for margin, a, b in cases
    )
    lines = subprocess.run([program], input=text, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(lines) == len(cases), lines
    answers = set()
    for (margin, a, b), line in zip(cases, lines):
        got = np.array([float(word) for word in line.split()]).reshape(6, 4)
        for kind, (row, (answer, numbers)) in enumerate(zip(got, expected(margin, a, b))):
            assert int(row[0]) == answer, (kind, row, answer, margin, a, b)
            np.testing.assert_allclose(row[1:], numbers, rtol=1e-8, atol=1e-12, err_msg=f"{kind} {margin} {a} {b}")
            answers.add((kind, answer))
    assert len(answers) >= 17, answers  # every kind gave every answer; "faster" may lack one
    print(f"{len(cases)} cases agree")


main(sys.argv[1])
