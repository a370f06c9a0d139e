"""SPDL: FFmpeg decodes, crops, resizes and flips, in a pipeline of threads that make whole batches."""

import threading

import numpy as np
import spdl.io
import spdl.pipeline

import harness
from photo_draws import SIZE, draw_crop, endless_order, files, normalise
from workloads import BATCH_SIZE


def batches_of(paths):
    order = endless_order(np.random.default_rng(0), len(paths))
    while True:
        yield [paths[next(order)] for _ in range(BATCH_SIZE)]


class Decode:
    def __init__(self, workload):
        self.workload = workload
        self.local = threading.local()  # a NumPy generator must not be used by two threads at once

    def picture(self, path, rng):
        packets = spdl.io.demux_image(path)
        codec = packets.codec
        x, y, width, height = draw_crop(rng, codec.width, codec.height)
        flip = ",hflip" if rng.integers(2) else ""
        # without exact=1 the crop's corner is rounded to even pixels where chroma is subsampled
        crop = f"crop={width}:{height}:{x}:{y}:exact=1,scale={SIZE}:{SIZE}:flags=bilinear{flip},format=pix_fmts=rgb24"
        return spdl.io.decode_packets(packets, filter_desc=crop)

    def __call__(self, paths):
        if not hasattr(self.local, "rng"):
            self.local.rng = np.random.default_rng(threading.get_ident())
        frames = [self.picture(path, self.local.rng) for path in paths]
        pictures = spdl.io.to_numpy(spdl.io.convert_frames(frames))  # u8 N x H x W x 3
        return normalise(pictures, self.workload), np.zeros(len(paths), np.int64)


def make_epochs(workload, data, workers, variant):
    paths = files(data)

    def epoch():
        builder = spdl.pipeline.PipelineBuilder().add_source(batches_of(paths))
        pipeline = builder.pipe(Decode(workload), concurrency=workers).add_sink(4).build(num_threads=workers)
        with pipeline.auto_stop():
            yield from pipeline

    return epoch


if __name__ == "__main__":
    harness.main(make_epochs, ("spdl", "numpy"))
