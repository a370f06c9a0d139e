"""The loaders that run.py compares: what they are called, where they live, what they are given."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Peer:
    name: str  # for --only; several rows may share one
    title: str
    environment: str  # .peers/<environment>; "" for the project's own .venv and programs
    program: str  # peer_<program>.py, or a program of build/release/bin
    workloads: tuple
    workers: tuple = (1, 2)
    variant: str = ""


MNIST, CIFAR10 = ("mnist",), ("cifar10",)
BOTH = MNIST + CIFAR10

PENSTOCK = Peer("penstock", "Penstock", "", "loadbench", BOTH, (0, 1, 2))

PEERS = (
    PENSTOCK,
    Peer("torch-data", "LibTorch torch::data, get_batch() calling our render", "", "torch_data_peer", BOTH, (0, 1, 2), "batch"),
    Peer("torch-data", "LibTorch torch::data, get() calling our render, Stack", "", "torch_data_peer", BOTH, (0, 1, 2), "sample"),
    Peer("pytorch", "PyTorch DataLoader, torchvision on PIL", "", "pytorch", BOTH, (0, 1, 2), "pil"),
    Peer("pytorch", "PyTorch DataLoader, torchvision v2 on tensors", "", "pytorch", BOTH, (0, 1, 2), "v2"),
    Peer("pytorch", "PyTorch DataLoader, whole batches by hand", "", "pytorch", BOTH, (0, 1, 2), "batch"),
    Peer("dali", "NVIDIA DALI, CPU", "dali", "dali", BOTH),
    Peer("ffcv", "FFCV, one numba operation by hand", "ffcv", "ffcv", BOTH, variant="numba"),
    Peer("ffcv", "FFCV, its own operations", "ffcv", "ffcv", CIFAR10, variant="stock"),
    Peer("opencv", "Python loop over OpenCV", "opencv", "opencv", MNIST, (0,)),
    Peer("mlx-data", "mlx-data, OpenCV", "mlx-data", "mlx", MNIST, (0, 1, 2)),
    Peer("spdl", "SPDL, OpenCV", "spdl", "spdl", MNIST),
    Peer("grain", "Grain, threads, OpenCV", "grain", "grain", MNIST, (0, 1, 2)),
    Peer("grain", "Grain, processes, OpenCV", "grain", "grain", MNIST, variant="processes"),
    Peer("turboloader", "TurboLoader, fused array gather", "turboloader", "turboloader", CIFAR10, (0, 1, 2)),
)
