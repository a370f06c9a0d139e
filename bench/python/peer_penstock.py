"""penstock.Loader for the harness of bench/peers, beside PyTorch's DataLoader: the same batches, checks and clock."""
import pathlib
import sys

import torch  # noqa: F401  (the loader gives torch's tensors where torch is imported)

import penstock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "peers"))
import harness  # noqa: E402


def make_epochs(workload, data, workers, _variant):
    loader = penstock.Loader(pathlib.Path(data) / "packed", batch_size=harness.BATCH_SIZE, workers=workers,
                             augment=workload.augment, tail="drop")
    return lambda: iter(loader)


if __name__ == "__main__":
    harness.main(make_epochs, ("penstock", "torch"))
