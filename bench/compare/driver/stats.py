"""Medians, spreads, and ratios of interleaved rounds."""

from statistics import median

NOISY_ABOVE = 0.30  # a larger variation between rounds is marked,
LEAST_ROUNDS = 3    # and so are fewer rounds,
LEAST_SHARE = 0.6   # or a smaller share of all rounds
LOADED_ABOVE = 0.10  # a larger share of all CPUs' time used by others in the median round is marked


def spread(values):
    """The difference between the worst and the best round, as a share of the median."""
    middle = median(values)
    if middle == 0:
        return 0.0 if max(values) == min(values) else float("inf")
    return (max(values) - min(values)) / middle


def is_noisy(values):
    return spread(values) > NOISY_ABOVE


def is_loaded(shares):
    """`shares`: of each round; None if unknown."""
    known = [share for share in shares if share is not None]
    return bool(known) and median(known) > LOADED_ABOVE


def too_few(count, of):
    return count < LEAST_ROUNDS or count < LEAST_SHARE * of


def ratios_by_round(ours, theirs):
    """{round: us} of two contestants -> the ratios of their common rounds."""
    return [ours[r] / theirs[r] for r in sorted(ours) if r in theirs and theirs[r] > 0]


def ratio(ours, theirs, of_rounds=0):
    """The median of the rounds' ratios and their spread; None without a common round. Also noisy if too few of
    `of_rounds` rounds are common."""
    by_round = ratios_by_round(ours, theirs)
    if not by_round:
        return None
    return {"median": median(by_round), "min": min(by_round), "max": max(by_round), "rounds": len(by_round),
            "spread": spread(by_round), "noisy": is_noisy(by_round) or too_few(len(by_round), of_rounds)}


def best(times):
    """{contestant: {round: us}} -> the one with the lowest median, or None."""
    present = {name: median(rounds.values()) for name, rounds in times.items() if rounds}
    return min(present, key=present.get) if present else None
