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
    store: str = ""  # path in .peers/data of what the loader keeps on the disk
    is_core_a_worker: bool = False  # it has no setting for its threads, but uses as many as the process has cores

    @property
    def is_penstock(self):
        return self.program == "loadbench"


MNIST, CIFAR10 = ("mnist",), ("cifar10",)
BOTH = MNIST + CIFAR10
PHOTOS, PHOTOS256 = ("photos",), ("photos256",)

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
    Peer("penstock", "Penstock, auto", "", "loadbench", PHOTOS, (1, 2), "auto", "penstock-photos-auto"),
    Peer("penstock", "Penstock, keep", "", "loadbench", PHOTOS, (1, 2), "keep", "penstock-photos-keep"),
    Peer("pytorch", "PyTorch DataLoader, PIL", "", "photos_pytorch", PHOTOS, variant="pil", store="photos"),
    Peer("pytorch", "PyTorch DataLoader, torchvision.io", "", "photos_pytorch", PHOTOS, variant="io", store="photos"),
    Peer("dali", "NVIDIA DALI, CPU, region decode", "dali", "photos_dali", PHOTOS, store="photos"),
    Peer("ffcv", "FFCV, the same JPEGs", "ffcv", "photos_ffcv", PHOTOS, variant="numba", store="photos-jpg.beton"),
    Peer("spdl", "SPDL, FFmpeg", "spdl", "photos_spdl", PHOTOS, store="photos"),
    Peer(
        "turboloader", "TurboLoader, region decode", "turboloader", "photos_turboloader", PHOTOS,
        store="photos.tar", is_core_a_worker=True,
    ),
    Peer("mlx-data", "mlx-data", "mlx-data", "photos_mlx", PHOTOS, store="photos"),
    Peer("webdataset", "WebDataset, torchvision.io", "webdataset", "photos_webdataset", PHOTOS, store="photos-webdataset"),
    Peer("streaming", "MosaicML Streaming, torchvision.io", "streaming", "photos_streaming", PHOTOS, store="photos-mds"),
    Peer("litdata", "LitData, torchvision.io", "litdata", "photos_litdata", PHOTOS, store="photos-litdata"),
    Peer("grain", "Grain, torchvision.io", "grain", "photos_grain", PHOTOS, store="photos"),
    Peer("penstock", "Penstock, coef at 256", "", "loadbench", PHOTOS256, (1, 2), "coef", "penstock-photos256-coef"),
    Peer("penstock", "Penstock, raw at 256", "", "loadbench", PHOTOS256, (1, 2), "raw", "penstock-photos256-raw"),
    Peer("ffcv", "FFCV, raw at 256", "ffcv", "photos_ffcv", PHOTOS256, variant="numba", store="photos-raw256.beton"),
    Peer("turboloader", "TurboLoader, raw at 256 x 256", "turboloader", "photos_turboloader", PHOTOS256, store="photos-256.tbl"),
)

# The loaders that the others are compared with.
OWN = {
    "mnist": (PENSTOCK.title,),
    "cifar10": (PENSTOCK.title,),
    "photos": ("Penstock, auto",),
    "photos256": ("Penstock, coef at 256", "Penstock, raw at 256"),
}
