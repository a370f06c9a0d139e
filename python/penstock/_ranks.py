"""Which rank this process is: from torch.distributed, else from the variables of torchrun, Slurm or Open MPI."""
import os
import sys
import warnings
from typing import Optional, Tuple

from penstock.errors import ConfigError

_LAUNCHERS = (("RANK", "WORLD_SIZE"), ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"), ("SLURM_PROCID", "SLURM_NTASKS"),
              ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"))


_has_warned = False


def _number(name: str) -> int:
    text = os.environ[name]
    if not text.isascii() or not text.isdigit():
        raise ConfigError(f'{name} is "{text[:200]}"; expected a number, 0 or more')
    return int(text)


def ranks_of_machine() -> int:
    """How many ranks share the cores of this machine."""
    return max([_number(name) for name in ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE") if os.environ.get(name)], default=1) or 1


def ranks_of_torch() -> Optional[Tuple[int, int]]:
    """Rank and world size of torch.distributed; None unless it is initialised."""
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return None


def rank_and_world_size(rank: Optional[int], world_size: Optional[int]) -> Tuple[int, int]:
    """The given values; without any, those of torch.distributed once it is initialised, else the launcher's, else (0, 1)."""
    if (rank is None) != (world_size is None):
        given, missing = ("rank", "world_size") if world_size is None else ("world_size", "rank")
        raise ConfigError(f"loader: {given} is given without {missing}; expected both or none")
    if rank is not None and world_size is not None:
        return rank, world_size
    of_torch = ranks_of_torch()
    if of_torch is not None:
        return of_torch
    in_batch_script = os.environ.get("ENVIRONMENT") == "BATCH" and not os.environ.get("SLURM_STEP_ID")
    for rank_name, size_name in _LAUNCHERS:
        is_slurm_script = in_batch_script and rank_name.startswith("SLURM")
        if os.environ.get(rank_name) and os.environ.get(size_name) and not is_slurm_script:
            rank, world_size = _number(rank_name), _number(size_name)
            if rank_name == "RANK" and world_size > 1:
                _warn_of_environment(rank, world_size)
            return rank, world_size
    return 0, 1


def _warn_of_environment(rank: int, world_size: int) -> None:
    """Once. A shell may have kept these two variables from something else, while torchrun, Slurm and Open MPI leave marks of
    their own in the processes that they start."""
    global _has_warned
    if _has_warned or os.environ.get("TORCHELASTIC_RUN_ID"):
        return
    _has_warned = True
    warnings.warn(f"loader: RANK={rank} and WORLD_SIZE={world_size} are in the environment, so that this process loads its share "
                  f"of every batch, 1 of {world_size}; rank=0, world_size=1 loads all of it, and "
                  "torch.distributed.init_process_group() before the loader ends this warning", stacklevel=5)
