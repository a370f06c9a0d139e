"""Makes one batch by OpenCV and NumPy, in the calling thread. Loaders that have no affine of their own call it."""

import cv2
import numpy as np

from workloads import affine_matrices

cv2.setNumThreads(0)
FLAGS = cv2.INTER_NEAREST | cv2.WARP_INVERSE_MAP


def render(images, rng, workload):
    """u8 N x 28 x 28 to normalised f32 N x 1 x 28 x 28. The warp is done in u8; one pass over the batch normalises it."""
    count, height, width = images.shape
    warped = np.empty_like(images)
    for image, matrix, output in zip(images, affine_matrices(rng, count, width, 0), warped):
        cv2.warpAffine(image, matrix, (width, height), output, FLAGS)
    pixels = np.multiply(warped, workload.scale[0], dtype=np.float32)
    pixels += workload.bias[0]
    return pixels[:, None]
