"""One parallel mode in Python PyTorch on two CPU ranks over Gloo: prints the milliseconds of a step.

    .venv/bin/python bench/peers/modes_pytorch.py ddp|zero1|gpipe|1f1b --arch lenet|resnet18 [--steps 30] [--cut layer3.0]

The batch lies in memory, so that nothing is loaded in a step. The first 10 steps are not counted. Each rank has one intra-op thread.
"""
import argparse
import os
import socket
import statistics
import time

import torch
import torch.distributed as dist
import torchvision
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.nn.parallel import DistributedDataParallel

RANKS = 2
UNCOUNTED = 10
INPUTS = {"lenet": (3, 32, 32), "resnet18": (3, 64, 64)}
SGD = {"lr": 0.05, "momentum": 0.9, "weight_decay": 5e-4}


def model_of(arch):
    """The stages of the model, by name, as penstock's have them."""
    if arch == "lenet":
        return nn.Sequential(nn.Sequential(nn.Conv2d(3, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
                             nn.Sequential(nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2)),
                             nn.Sequential(nn.Flatten(), nn.Linear(576, 120), nn.ReLU()), nn.Sequential(nn.Linear(120, 84), nn.ReLU()),
                             nn.Linear(84, 10)), ["conv1", "conv2", "fc1", "fc2", "fc3"]
    resnet = torchvision.models.resnet18(num_classes=10)
    stages = [nn.Sequential(resnet.conv1, resnet.bn1, resnet.relu, resnet.maxpool)]
    names = ["stem"]
    for i in range(1, 5):
        for j, block in enumerate(getattr(resnet, f"layer{i}")):
            stages.append(block)
            names.append(f"layer{i}.{j}")
    stages.append(nn.Sequential(resnet.avgpool, nn.Flatten(), resnet.fc))
    return nn.Sequential(*stages), [*names, "fc"]


def replicated_step(options, model, images, labels):
    """ddp, and zero1: the same with the optimiser's state in slices."""
    loss_of, model = nn.CrossEntropyLoss(), DistributedDataParallel(model)
    optimizer = (torch.optim.SGD(model.parameters(), **SGD) if options.mode == "ddp" else
                 ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, parameters_as_bucket_view=True, **SGD))

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss_of(model(images), labels).backward()
        optimizer.step()

    return step


def pipelined_step(options, model, names, images, labels):
    rank, cut = dist.get_rank(), names.index(options.cut)
    part = model[:cut] if rank == 0 else model[cut:]
    stage = PipelineStage(part, rank, RANKS, torch.device("cpu"))
    kind = ScheduleGPipe if options.mode == "gpipe" else Schedule1F1B
    schedule = kind(stage, n_microbatches=options.micro_batches, loss_fn=nn.CrossEntropyLoss())
    optimizer = torch.optim.SGD(part.parameters(), **SGD)

    def step():
        optimizer.zero_grad(set_to_none=True)
        schedule.step(images) if rank == 0 else schedule.step(target=labels)
        optimizer.step()

    return step


def run_rank(rank, options, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model, names = model_of(options.arch)
    is_pipeline = options.mode in ("gpipe", "1f1b")
    rows = options.batch_size // (1 if is_pipeline else RANKS)
    images, labels = torch.randn(rows, *INPUTS[options.arch]), torch.randint(10, (rows,))
    step = pipelined_step(options, model, names, images, labels) if is_pipeline else replicated_step(options, model, images, labels)
    times = []
    for _ in range(options.steps):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    if rank == 0:
        print(f"{1e3 * statistics.fmean(times[UNCOUNTED:]):.4f}", flush=True)
    dist.barrier()
    del step, model  # before the group: a DDP model that ends later can wait for Gloo's thread for ever (torch 2.11)
    dist.destroy_process_group()


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("mode", choices=["ddp", "zero1", "gpipe", "1f1b"])
    arguments.add_argument("--arch", choices=sorted(INPUTS), default="resnet18")
    arguments.add_argument("--steps", type=int, default=30)
    arguments.add_argument("--batch-size", type=int, default=64, help="rows per step, over all ranks")
    arguments.add_argument("--cut", default="layer2.0", help="first stage of the second part")
    arguments.add_argument("--micro-batches", type=int, default=8)
    options = arguments.parse_args()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(run_rank, (options, port), nprocs=RANKS)


if __name__ == "__main__":
    main()
