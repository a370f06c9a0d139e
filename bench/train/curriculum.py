#!/usr/bin/env python3
"""The recipe cifar10-94-curriculum beside cifar10-94, both made smaller, over several seeds: at equal steps and in equal time.

    .venv/bin/python bench/train/curriculum.py image-folder:DIR [--seeds 5] [--width 0.125] [--subset 'percent(0-20)'] [--epochs 9]

DIR holds CIFAR-10 as train/CLASS/*.jpg and test/CLASS/*.jpg; any --data of `train` will do. Both recipes have the same batch, and
docs/RECIPES.md says which rates belong to it. First each seed trains both for --epochs, in turn. The median of the ratios of their
processor times per step, which other programs disturb less than they do seconds, says after how many epochs cifar10-94 has taken as
long as the curriculum: then each seed trains it for so many. A run whose results are in OUT is not repeated.
"""
import argparse
import json
import pathlib
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLAIN, CURRICULUM = "cifar10-94", "cifar10-94-curriculum"
# Those of the recipes: the keys of the model, the batch, and the factors of --lr of the head and of biases.
ARCH = {PLAIN: [], CURRICULUM: ["activation=silu", "norm-momentum=0.4434"]}
RATES = {PLAIN: (2000, 5583.3333, 441.66667), CURRICULUM: (1536, 3688.4434, 390.30067)}


def flags_of(recipe, options, epochs):
    batch, head, bias = RATES[recipe]
    share = options.batch / batch
    words = ["--recipe", recipe, "--arch", f"airbench({','.join([f'width={options.width}', *ARCH[recipe]])})", "-b", options.batch, "--epochs",
             epochs, "--layer-lr", f"head={head * share * options.width:.6g}", "--bias-lr", f"{bias * share:.6g}"]
    if recipe == CURRICULUM:
        words += ["--size-schedule", f"0:24,{epochs // 3}:28,{2 * epochs // 3}:32"]
    return words


def trained(recipe, options, epochs, seed, out):
    """The summary of a run."""
    if not (out / "summary.json").exists():
        subprocess.run([*map(str, [options.bin / "train", "--data", options.data, "--subset", options.subset, *flags_of(recipe, options, epochs), "--seed",
                                   seed, "--device", "cpu", "--threads", options.threads, "-j", 1, "--channels-last", "--save-every", 0, "--out", out])],
                       check=True, stdout=subprocess.DEVNULL)
    return json.loads((out / "summary.json").read_text())


def ms_per_step(summary):
    """Processor time of forward, backward and update."""
    return summary["limit"]["service_ms"]["update_cpu"]


def mean_text(values):
    """Mean and standard error, in percent."""
    error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else float("nan")
    return f"{100 * statistics.mean(values):.2f} ± {100 * error:.2f}"


def print_table(arms):
    print("| recipe | epochs | steps | accuracy, mean and its standard error | each seed |\n|---|---:|---:|---:|---|")
    accuracies = {arm: [summary["accuracy"] for summary in summaries] for arm, summaries in arms.items()}
    for (recipe, epochs), values in accuracies.items():
        steps = arms[recipe, epochs][0]["steps"]
        print(f"| {recipe} | {epochs} | {steps} | {mean_text(values)} | {', '.join(f'{100 * value:.2f}' for value in values)} |")
    (_, new), *others = accuracies.items()
    for (recipe, epochs), old in others:
        differences = [first - second for first, second in zip(new, old)]
        print(f"{CURRICULUM} less {recipe} with {epochs} epochs, seed by seed: {mean_text(differences)} points")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--width", type=float, default=0.125)
    parser.add_argument("--subset", default="percent(0-20)")
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--epochs", type=int, default=9, help="a multiple of 3: each size has a third of them")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "runs/curriculum", help="folder of the runs")
    options = parser.parse_args()
    if options.epochs % 3:
        parser.error(f"--epochs is {options.epochs}; expected a multiple of 3")
    arms = {}

    def train_seed(recipe, epochs, seed):
        summary = trained(recipe, options, epochs, seed, options.out / f"{recipe}-{epochs}-{seed}")
        arms.setdefault((recipe, epochs), []).append(summary)
        print(f"seed {seed}, {recipe}, {epochs} epochs: {100 * summary['accuracy']:.2f} %, {ms_per_step(summary):.0f} ms of processor time per step",
              flush=True)
        return ms_per_step(summary)

    ratios = [train_seed(CURRICULUM, options.epochs, seed) / train_seed(PLAIN, options.epochs, seed) for seed in range(options.seeds)]
    ratio = statistics.median(ratios)
    shorter = max(1, round(options.epochs * ratio))
    print(f"A step of {CURRICULUM} takes {ratio:.3f} ({min(ratios):.3f} to {max(ratios):.3f}) times as long as one of {PLAIN}, so that {shorter} epochs of "
          f"that take {shorter / (options.epochs * ratio):.3f} times as long as {options.epochs} of the curriculum")
    for seed in range(options.seeds) if shorter != options.epochs else ():
        train_seed(PLAIN, shorter, seed)
    print_table(arms)


if __name__ == "__main__":
    main()
