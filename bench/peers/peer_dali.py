"""NVIDIA DALI's CPU pipeline, fed from an array; its outputs are read in place."""

import numpy as np
from nvidia.dali import fn, pipeline_def, types

import harness
from workloads import BATCH_SIZE, PAD, affine_matrices, epoch_indices, load, padded


class Source:
    """Batches of pictures, labels and the parameters of their transforms. NumPy draws these for a whole batch at once, because
    DALI's own random operators took more CPU time."""

    def __init__(self, workload, data):
        self.images, self.labels = load(data, workload.name)
        self.parameters = self.affine if workload.name == "mnist" else self.crop
        self.images = self.images[..., None] if workload.name == "mnist" else padded(self.images)
        self.rng = np.random.default_rng(0)
        self.batches = iter(())

    def affine(self):
        return (affine_matrices(self.rng, BATCH_SIZE, 28, 0.5),)

    def crop(self):
        x, y = self.rng.integers(0, 2 * PAD + 1, (2, BATCH_SIZE)).astype(np.float32) / (2 * PAD)
        return x, y, self.rng.integers(0, 2, BATCH_SIZE).astype(np.int32)

    def __call__(self):
        rows = next(self.batches, None)
        if rows is None:
            self.batches = iter(epoch_indices(self.rng, len(self.labels)))
            rows = next(self.batches)
        return (self.images[rows], self.labels[rows], *self.parameters())


@pipeline_def
def affine_pipeline(source, workload):
    images, labels, matrices = fn.external_source(source, num_outputs=3, batch=True, layout=["HWC", "", ""])
    images = fn.warp_affine(images, matrix=matrices, interp_type=types.INTERP_NN, fill_value=0)
    return normalise(images, workload), labels


@pipeline_def
def crop_pipeline(source, workload):
    images, labels, x, y, flip = fn.external_source(source, num_outputs=5, batch=True, layout=["HWC", "", "", "", ""])
    return normalise(images, workload, crop=(32, 32), crop_pos_x=x, crop_pos_y=y, mirror=flip), labels


def normalise(images, workload, **crop):
    mean, std = (255 * np.array(values) for values in (workload.mean, workload.std))
    return fn.crop_mirror_normalize(images, dtype=types.FLOAT, output_layout="CHW", mean=list(mean), std=list(std), **crop)


def make_epochs(workload, data, workers, variant):
    definition = affine_pipeline if workload.name == "mnist" else crop_pipeline
    pipeline = definition(
        Source(workload, data), workload, batch_size=BATCH_SIZE, num_threads=workers, device_id=None, prefetch_queue_depth=3
    )
    pipeline.build()

    def batches():
        while True:
            images, labels = pipeline.run()
            yield images.as_tensor(), labels.as_tensor()

    return batches


if __name__ == "__main__":
    harness.main(make_epochs, ("nvidia-dali-cuda130",))
