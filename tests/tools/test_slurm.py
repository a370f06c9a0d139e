"""srun and sbatch of a Slurm with one node."""
from slurm_tool import slurm, wait_until  # noqa: F401
from train_tool import SMALL, TRAIN, environment, merged, packed_cache, run, wait_for_steps  # noqa: F401

RUN = [*SMALL, "--mode", "ddp", "--epochs", "4", "--save-every", "0", "--print-freq", "1", "--resume", "auto"]


def test_srun_starts_ranks(cache, tmp_path, slurm):
    done = slurm("srun", "-n", 2, TRAIN, *merged([*RUN, "--out", tmp_path / "run"]), **environment(cache))
    assert done.returncode == 0 and "2 ranks started by slurm (gloo and shared memory)" in done.stdout, done.stdout + done.stderr


def test_a_batch_job_that_is_told_to_end_saves_and_the_next_one_goes_on(cache, tmp_path, slurm):
    """What --signal does before a time limit is done by hand here, so that the weights can be compared after seconds."""
    left_alone, out = tmp_path / "left-alone", tmp_path / "run"
    run(cache, *RUN, "--nproc", 2, "--out", left_alone)
    words = " ".join(f"'{word}'" for word in map(str, [TRAIN, *merged([*RUN, "--out", out])]))
    job = ["sbatch", "--parsable", "-n", 2, "-o", tmp_path / "log", "--wrap", f"srun {words}"]
    number = slurm(*job, **environment(cache)).stdout.strip()

    class Job:
        @staticmethod
        def poll():
            return None if slurm("squeue", "-h", "-j", number).stdout else 0

    wait_for_steps(Job, out, 15)
    slurm("scancel", "--signal=TERM", number)
    wait_until(lambda: Job.poll() == 0)
    log = (tmp_path / "log").read_text()
    assert "stopped by SIGTERM at epoch" in log and not (out / "model.safetensors").exists(), log
    slurm(*job[:-2], "--wait", *job[-2:], **environment(cache))
    log = (tmp_path / "log").read_text()
    assert "resuming at epoch" in log and "2 ranks started by slurm" in log, log
    assert (out / "model.safetensors").read_bytes() == (left_alone / "model.safetensors").read_bytes()


def test_a_job_that_reaches_its_time_limit_saves_and_asks_for_another_start(cache, tmp_path, slurm):
    """The command of docs/SURVIVING.md. Takes up to two minutes, because Slurm's clock for time limits has minutes."""
    flags = merged([*RUN, "--epochs", 1000000, "--print-freq", 1000, "--out", tmp_path / "run"])
    words = " ".join(f"'{word}'" for word in map(str, [TRAIN, *flags]))
    again = "{ code=$?; [ $code != 143 ] || scontrol requeue $SLURM_JOB_ID; exit $code; }"
    number = slurm("sbatch", "--parsable", "--requeue", "--open-mode=append", "--time=2", "--signal=TERM@30", "-n", 2,
                   "-o", tmp_path / "log", "--wrap", f"srun {words} || {again}", **environment(cache)).stdout.strip()
    try:
        wait_until(lambda: "BeginTime" in slurm("squeue", "-h", "-j", number, "-o", "%r").stdout, seconds=180)
        assert "stopped by SIGTERM at epoch" in (tmp_path / "log").read_text()
        slurm("scontrol", "update", f"JobId={number}", "StartTime=now")
        wait_until(lambda: "resuming at epoch" in (tmp_path / "log").read_text())
    finally:
        slurm("scancel", number)
        wait_until(lambda: not slurm("squeue", "-h", "-j", number).stdout)


def test_a_job_that_slurm_requeues_goes_on_by_itself(cache, tmp_path, slurm):
    """Slurm kills the ranks of a job that it requeues, as it does when a node fails, and starts the same script again."""
    left_alone, out = tmp_path / "left-alone", tmp_path / "run"
    flags = [*RUN, "--epochs", "8", "--save-every", "3 steps"]
    run(cache, *flags, "--nproc", 2, "--out", left_alone)
    words = " ".join(f"'{word}'" for word in map(str, [TRAIN, *merged([*flags, "--out", out])]))
    number = slurm("sbatch", "--parsable", "--requeue", "--open-mode=append", "-n", 2, "-o", tmp_path / "log", "--wrap",
                   f"srun {words}", **environment(cache)).stdout.strip()

    class Job:
        @staticmethod
        def poll():
            return None if slurm("squeue", "-h", "-j", number).stdout else 0

    wait_for_steps(Job, out, 15)
    requeued = slurm("scontrol", "requeue", number)
    assert requeued.returncode == 0, requeued.stderr

    # Slurm holds a requeued job back for two minutes, on which nothing here depends.
    wait_until(lambda: "BeginTime" in slurm("squeue", "-h", "-j", number, "-o", "%r").stdout)
    slurm("scontrol", "update", f"JobId={number}", "StartTime=now")
    wait_until(lambda: Job.poll() == 0)
    log = (tmp_path / "log").read_text()
    assert log.count("2 ranks started by slurm") == 2 and log.count("resuming at epoch") == 1, log
    assert (out / "model.safetensors").read_bytes() == (left_alone / "model.safetensors").read_bytes()
