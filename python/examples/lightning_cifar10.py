"""Trains a small network with Lightning, on CIFAR-10 or on any other data set of small pictures.

    python python/examples/lightning_cifar10.py cifar10:data/cifar-10-batches-bin
    python python/examples/lightning_cifar10.py digits --epochs 2 --resume run/last.ckpt
    python python/examples/lightning_cifar10.py digits --devices 2

Lightning saves the state of the loader in its checkpoints, so that --resume goes on in the middle of an epoch. The loader
divides the batches among the ranks itself, so Lightning must not put a sampler of its own into it. --batch-size counts the rows
of all devices together. (A script that is called lightning.py would import itself in place of Lightning.)
"""
import argparse
import pathlib

import torch
from torch import nn

import penstock
from cifar10 import arguments, loader_of, network, pack_once


def given_options() -> argparse.Namespace:
    parser = arguments(__doc__ or "")
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--out", type=pathlib.Path, default="run", help="folder for checkpoints")
    parser.add_argument("--save-every", type=int, default=100, help="steps between checkpoints")
    parser.add_argument("--resume", type=pathlib.Path, help="checkpoint to go on from")
    parser.add_argument("--stop-after", type=int, default=-1, help="end after this many steps, as if killed; -1: do not")
    return parser.parse_args()


OPTIONS = given_options()  # before the imports, so that --help needs no Lightning
import lightning  # noqa: E402
from lightning.pytorch.callbacks import ModelCheckpoint  # noqa: E402
from lightning.pytorch.utilities.types import OptimizerLRScheduler  # noqa: E402


class Pictures(lightning.LightningDataModule):
    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__()
        self.options = options

    def prepare_data(self) -> None:  # Lightning calls this on one rank, and lets the others wait
        pack_once(self.options)

    def train_dataloader(self) -> penstock.Loader:
        return loader_of(self.options.data, "train", "shift(pad=4),flip,normalize", self.options)

    def val_dataloader(self) -> penstock.Loader:
        return loader_of(self.options.data, "test", "normalize", self.options)


class Classifier(lightning.LightningModule):
    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__()
        self.options = options

    def configure_model(self) -> None:
        if not hasattr(self, "network"):
            train = penstock.Loader(self.options.data, batch_size=self.options.batch_size, workers=0)
            self.network = network(train.image_shape[0], len(train.class_names))
            self.step_count = self.options.epochs * len(train)

    def training_step(self, batch: penstock.Batch, _index: int) -> torch.Tensor:
        sums = nn.functional.cross_entropy(self.network(batch.images), batch.labels, reduction="sum")
        loss = sums * self.trainer.world_size / batch.global_count  # DDP takes the mean of the ranks' gradients
        self.log("loss", loss)
        return loss

    def validation_step(self, batch: penstock.Batch, _index: int) -> None:
        images, labels = batch
        hits = (self.network(images).argmax(1) == labels).float()
        self.log("accuracy", hits.mean(), batch_size=len(labels), sync_dist=True)

    def on_validation_epoch_end(self) -> None:
        accuracy = float(self.trainer.callback_metrics["accuracy"])
        if self.trainer.is_global_zero:
            print(f"epoch {self.current_epoch}: test accuracy {accuracy:.2%}", flush=True)

    def configure_optimizers(self) -> OptimizerLRScheduler:
        optimizer = torch.optim.SGD(self.parameters(), lr=self.options.lr, momentum=0.9, weight_decay=5e-4, nesterov=True)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, self.options.lr, total_steps=self.step_count)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def main(options: argparse.Namespace) -> None:
    lightning.seed_everything(0)
    checkpoints = ModelCheckpoint(options.out, save_last=True, every_n_train_steps=options.save_every)
    trainer = lightning.Trainer(max_epochs=options.epochs, max_steps=options.stop_after, devices=options.devices,
                                use_distributed_sampler=False, callbacks=[checkpoints], logger=False, enable_progress_bar=False,
                                num_sanity_val_steps=0)
    trainer.fit(Classifier(options), Pictures(options), ckpt_path=options.resume)


if __name__ == "__main__":
    main(OPTIONS)
