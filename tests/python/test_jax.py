"""JAX takes batches by DLPack, on the CPU: in a process of its own, whose threads no other test counts."""
from conftest import python

CODE = """
import sys, jax, numpy, penstock
options = {"augment": "random-resized-crop(size=32),flip,normalize", "batch_size": 7}
expected = list(penstock.Loader(sys.argv[1], arrays="numpy", **options))
taken = []
for batch in penstock.Loader(sys.argv[1], workers=1, arrays="dlpack", **options):
    images, labels = jax.dlpack.from_dlpack(batch.images), jax.dlpack.from_dlpack(batch.labels)
    taken.append((images, labels, memoryview(batch.images)))
for (images, labels, memory), batch in zip(taken, expected, strict=True):
    assert isinstance(images, jax.Array) and images.dtype == "float32"
    assert images.unsafe_buffer_pointer() == numpy.asarray(memory).ctypes.data, "a copy"
    assert numpy.array_equal(images, batch.images) and numpy.array_equal(labels, batch.labels)
    mean = jax.jit(lambda x: x.mean((1, 2, 3)))(images)
    assert numpy.allclose(mean, batch.images.mean((1, 2, 3)), atol=1e-5)
print(len(taken))
"""


def test_jax_takes_batches_without_a_copy(pictures):
    done = python(CODE, pictures)
    assert (done.returncode, done.stdout) == (0, "4\n"), done.stderr
