"""Where the clients run: on a simulation of their own, bare or under a quota, each with a time limit."""
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import uuid

HERE = os.path.dirname(os.path.abspath(__file__))
DIST = os.path.abspath(os.environ.get("DIST", f"{HERE}/../../target/dist"))
MIB, GIB = 1 << 20, 1 << 30

DEVICE = 2 * GIB  # what the simulated GPU has
QUOTA = 1 * GIB  # what a client under quota may use
LIMIT_S = 300

# Variables of the caller that would change what a client sees.
FOREIGN = ("GPU_QUOTA_", "GPU_SIM", "CUDA_", "NUMBA_", "TI_", "LD_PRELOAD", "LD_LIBRARY_PATH", "NVRTC_PATH", "DEV")


class Wrong(Exception):
    """What a check found to be wrong."""


def expect(condition, message):
    if not condition:
        raise Wrong(message)


class Lab:
    """One simulation, with one device, and one group of processes that share a quota."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="clients-")
        self.group = f"clients-{uuid.uuid4().hex}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.folder.cleanup()

    def environment(self, quota=None, **more):
        """Bare when `quota` is None; else the library preloaded, with GPU_QUOTA_MEMORY and what else the dictionary names."""
        env = {k: v for k, v in os.environ.items() if not k.startswith(FOREIGN)}
        env |= {
            "LD_LIBRARY_PATH": f"{DIST}/sim",
            "GPU_SIM": f"{self.folder.name}/simulation",
            "GPU_SIM_DEVICES": f"{DEVICE // MIB}MiB",
            "HOME": self.folder.name,
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        if quota is not None:
            env |= {"LD_PRELOAD": f"{DIST}/lib/libquota_shim.so", "GPU_QUOTA_GROUP": self.group}
            # Contexts are left out of the account, so that every figure is exact.
            env |= {"GPU_QUOTA_MEMORY": str(QUOTA), "GPU_QUOTA_CONTEXT": "0"} | quota
        return env | more

    def start(self, command, env):
        return subprocess.Popen(command, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, cwd=self.folder.name, start_new_session=True)

    def output(self, command, env, limit=LIMIT_S):
        """What the command printed; it must succeed."""
        process = self.start(command, env)
        try:
            out, err = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            raise Wrong(f"{os.path.basename(command[0])} did not end within {limit} s") from None
        finally:
            end(process)
        expect(process.returncode == 0, f"exit status {process.returncode}: {tail(err) or tail(out)}")
        return out

    def program(self, name, *args, quota=None, **more):
        """The figures that one of our programs reports in its last line."""
        out = self.output(python(name, *args), self.environment(quota, **more))
        return json.loads(out.splitlines()[-1])

    @contextlib.contextmanager
    def holder(self, size, quota=None):
        """A process that holds `size` bytes of device memory meanwhile; yields what it reported."""
        process = self.start(python("hold", str(size)), self.environment(quota))
        try:
            line = process.stdout.readline()
            expect(line, f"the holder ended: {tail(process.stderr.read()) if process.poll() is not None else '?'}")
            yield json.loads(line)
        finally:
            end(process)


def python(name, *args):
    return [sys.executable, f"{HERE}/programs/{name}.py", *args]


def end(process):
    """Ends the process with all that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for pipe in (process.stdin, process.stdout, process.stderr):
        with contextlib.suppress(OSError, ValueError):
            pipe.close()
    process.wait()


def tail(text, length=400):
    return " | ".join(text.strip().splitlines()[-4:])[-length:]
