"""Which rank this process is: from torch.distributed, else from the variables of torchrun, Slurm or Open MPI."""
import os
import sys
from typing import Optional, Tuple

from penstock.errors import ConfigError

_LAUNCHERS = (("RANK", "WORLD_SIZE"), ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"), ("SLURM_PROCID", "SLURM_NTASKS"),
              ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"))


def _number(name: str) -> int:
    text = os.environ[name]
    if not text.isascii() or not text.isdigit():
        raise ConfigError(f'{name} is "{text[:200]}"; expected a number, 0 or more')
    return int(text)


def ranks_of_machine() -> int:
    """How many ranks share the cores of this machine."""
    return max([_number(name) for name in ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE") if os.environ.get(name)], default=1) or 1


def rank_and_world_size(rank: Optional[int], world_size: Optional[int]) -> Tuple[int, int]:
    """The given values; without any, those of torch.distributed once it is initialised, else the launcher's, else (0, 1)."""
    if (rank is None) != (world_size is None):
        given, missing = ("rank", "world_size") if world_size is None else ("world_size", "rank")
        raise ConfigError(f"loader: {given} is given without {missing}; expected both or none")
    if rank is not None and world_size is not None:
        return rank, world_size
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    in_batch_script = os.environ.get("ENVIRONMENT") == "BATCH" and not os.environ.get("SLURM_STEP_ID")
    for rank_name, size_name in _LAUNCHERS:
        is_slurm_script = in_batch_script and rank_name.startswith("SLURM")
        if os.environ.get(rank_name) and os.environ.get(size_name) and not is_slurm_script:
            return _number(rank_name), _number(size_name)
    return 0, 1
