"""The plots of the training reports: curves over the steps of training, and what came out over the weights of the reward."""

from collections import defaultdict
from statistics import fmean

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot

SMOOTH = 5
CURVES = ("decomposed/parallel", "decomposed/sequential", "turns/parallel", "turns/sequential", "exact_match", "reward")


def plot_curves(told, path):
    """The curves of the training rollouts of every run that has them."""
    figure, axes = pyplot.subplots(2, 3, figsize=(14, 7.6), sharex=True)
    shown = {run: facts["curves"] for run, facts in told.items() if "curves" in facts}
    colours = pyplot.get_cmap("tab20" if len(shown) > 10 else "tab10").colors
    for axis, name in zip(axes.flat, CURVES, strict=True):
        for (run, curves), colour in zip(shown.items(), colours, strict=False):
            values = np.array([np.nan if value is None else value for value in curves[name]], dtype=float)
            if len(values) >= SMOOTH:
                smooth = [np.nanmean(values[max(0, at - SMOOTH + 1) : at + 1]) for at in range(len(values))]
                axis.plot(range(1, len(values) + 1), smooth, label=run, linewidth=1.5, color=colour)
        axis.set_title(name)
        axis.grid(alpha=0.3)
    for axis in axes[1]:
        axis.set_xlabel("step")
    figure.suptitle(f"Training rollouts, sampled at temperature 1; means over the last {SMOOTH} steps")
    figure.tight_layout(rect=(0, 0.08, 1, 1))
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="lower center", ncol=5, fontsize=8)
    figure.savefig(path, dpi=90)


def plot_grid(points, path, title):
    """A panel for each kind of `points`: the share of decomposed questions over λs, a line for each λd through its runs' mean.

    A point is (λd, λs, share, low, high); without an interval, low and high are the share.
    """
    figure, axes = pyplot.subplots(1, len(points), figsize=(11, 4.5), sharey=True)
    for axis, (kind, found) in zip(axes, points.items(), strict=True):
        for place, weight in enumerate(sorted({point[0] for point in found})):
            of_weight = sorted(point[1:] for point in found if point[0] == weight)
            at, mean, low, high = np.array(of_weight).T
            error = np.clip([mean - low, high - mean], 0, None)
            bars = axis.errorbar(at + 0.008 * place, mean, error, marker="o", capsize=3, linestyle="none")
            runs = defaultdict(list)
            for where, share, *_ in of_weight:
                runs[where + 0.008 * place].append(share)
            axis.plot(list(runs), [fmean(shares) for shares in runs.values()], color=bars[0].get_color(), label=f"λd = {weight:g}")
        axis.set_title(f"{kind} questions")
        axis.set_xlabel("λs")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("decomposed")
    axes[0].set_ylim(-0.02, 1.02)
    axes[0].legend()
    figure.suptitle(title)
    figure.tight_layout()
    figure.savefig(path, dpi=90)
