"""Where the checks run their workers: environments, processes, and the records that a check leaves."""
import contextlib
import json
import os
import signal
import subprocess
import sys
import uuid

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(f"{HERE}/../../..")
DIST = os.path.abspath(os.environ.get("DIST", f"{ROOT}/target/dist"))
SHIM = f"{DIST}/lib/libquota_shim.so"
SIMULATED = "ACCEPT_SIMULATE" in os.environ
MIB, GIB = 1 << 20, 1 << 30


def record(name, value, unit="", ok=None, want="", **details):
    """One finding: `ok` is True or False where it was judged, None where it is only noted."""
    print(json.dumps({"name": name, "value": value, "unit": unit, "ok": ok, "want": want, **details}), flush=True)


def skip(name, why):
    print(json.dumps({"name": name, "skipped": why}), flush=True)


@contextlib.contextmanager
def part(name):
    """A part of a check: its failure becomes a record, and the next part runs."""
    try:
        yield
    except Exception as e:  # whatever it was, the others go on
        record(name, f"{type(e).__name__}: {e}"[:300], ok=False, want="no error")


def main(functions):
    """Runs the function that the first argument names with the other arguments."""
    functions[sys.argv[1]](*sys.argv[2:])


def clean_environment():
    """The caller's environment without what would change a worker's quota; CUDA_VISIBLE_DEVICES, which chooses the card, stays."""
    quota = ("GPU_QUOTA_", "CUDA_DEVICE_MEMORY_LIMIT", "CUDA_DEVICE_SM_LIMIT", "LD_PRELOAD")
    return {k: v for k, v in os.environ.items() if not k.startswith(quota)}


def limited(memory=None, compute=None, context="0", group=None, **more):
    """The environment of a process under a quota; with neither limit, of one that is only hooked."""
    env = clean_environment() | {"LD_PRELOAD": SHIM, "GPU_QUOTA_GROUP": group or new_group()}
    chosen = {"GPU_QUOTA_MEMORY": memory, "GPU_QUOTA_COMPUTE": compute, "GPU_QUOTA_CONTEXT": context}
    return env | {k: v for k, v in chosen.items() if v is not None} | more


def bare(**more):
    return clean_environment() | more


def new_group():
    return f"accept-{uuid.uuid4().hex}"


class Worker:
    """A process of one of these scripts, talking JSON lines over its pipes. It ends with the check, whose process group it shares."""

    def __init__(self, env, script, *args):
        command = [sys.executable, f"{HERE}/{script}.py", *map(str, args)]
        self.process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.pid = self.process.pid

    def ask(self, **job):
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()

    def answer(self):
        for line in self.process.stdout:
            if line.startswith("{"):
                note_regions(self.pid)
                return json.loads(line)
        self.process.wait()
        raise RuntimeError(f"worker ended with {self.process.returncode}: {tail(self.process.stderr.read())}")

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            with contextlib.suppress(OSError):
                pipe.close()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()


def note_regions(pid):
    """Notes the shared regions that a process has mapped, so that they are removed after the last check."""
    with contextlib.suppress(OSError, KeyError):
        with open(f"/proc/{pid}/maps") as maps, open(os.environ["ACCEPT_REGIONS"], "a") as notes:
            notes.writelines(f"{path}\n" for path in {line.split()[-1] for line in maps if "/dev/shm/gpu-quota." in line})


def once(env, script, *args):
    """The first answer of a worker that then is ended."""
    with Worker(env, script, *args) as worker:
        return worker.answer()


def say(**answer):
    """A worker's answer."""
    print(json.dumps(answer), flush=True)


def jobs():
    """What a worker is asked, one after the other."""
    for line in sys.stdin:
        yield json.loads(line)


def tail(text, length=300):
    return " | ".join(text.strip().splitlines()[-3:])[-length:]
