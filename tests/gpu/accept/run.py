"""Runs the checks, each a process with a time limit of its own, within one budget; prints a table last and writes accept.json."""
import contextlib
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
DIST = os.path.abspath(os.environ.get("DIST", f"{HERE}/../../../target/dist"))
OUT = os.path.abspath(os.environ.get("OUT", "accept-out"))
BUDGET_S = 345

# Name, most seconds, whether the simulated GPU can do it too, script and its arguments.
PLAN = [
    ("machine", 25, True, "facts", "machine"),
    ("lookups", 25, True, "facts", "lookups"),
    ("contexts", 25, True, "facts", "contexts"),
    ("limits", 60, True, "memory", "limits"),
    ("groups", 25, True, "memory", "groups"),
    ("fork", 15, True, "memory", "fork"),
    ("true use", 20, True, "memory", "true_use"),
    ("nvidia-smi", 20, False, "facts", "smi"),
    ("hazards", 60, True, "hazards", "hazards"),
    ("torch", 75, False, "frameworks", "torch"),
    ("share alone", 90, True, "share", "alone"),
    ("share by launch", 40, True, "share", "launches"),
    ("share in pairs", 60, True, "share", "pairs"),
    ("hook cost", 45, True, "cost", "hooks"),
    ("slices", 25, False, "slices", "slices"),
    ("torch share", 45, False, "frameworks", "torch_share"),
    ("cupy", 30, False, "frameworks", "cupy"),
    ("triton", 40, False, "frameworks", "triton"),
    ("onnxruntime", 40, False, "frameworks", "onnxruntime"),
    ("jax", 60, False, "frameworks", "jax"),
]


def main(arguments):
    simulate = "--simulate" in arguments
    words = [a for a in arguments if not a.startswith("-")]
    unknown = [a for a in arguments if a.startswith("-") and a != "--simulate"]
    if unknown:
        sys.exit(f"accept: unknown option {unknown[0]}; --simulate is the only one")
    for file in ("lib/libquota_shim.so", "bin/quota-daemon", *(["sim/libcuda.so.1"] if simulate else [])):
        if not os.path.exists(f"{DIST}/{file}"):
            sys.exit(f"accept: {DIST}/{file} is missing; run cargo xtask dist --portable, or set DIST")
    with tempfile.TemporaryDirectory(prefix="accept-") as folder:
        env = environment(simulate, folder)
        why = no_gpu(env)
        if why:
            print(f"accept: {why}; nothing was checked")
            return 1 if simulate else 0
        env["ACCEPT_REGIONS"] = f"{folder}/regions"
        plan = [p for p in PLAN if (p[2] or not simulate) and (not words or any(w in p[0] for w in words))]
        try:
            return run(env, plan, simulate)
        finally:
            remove_regions(env["ACCEPT_REGIONS"])


def remove_regions(notes):
    """The groups of the checks are theirs alone, so nothing else uses what their processes had mapped."""
    with contextlib.suppress(OSError), open(notes) as paths:
        for path in {line.strip() for line in paths}:
            with contextlib.suppress(OSError):
                os.unlink(path)


def environment(simulate, folder):
    """What every check runs with; a simulation of our own where one is asked for."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("GPU_QUOTA_", "LD_PRELOAD", "ACCEPT_"))}
    env["DIST"] = DIST
    if simulate:
        env |= {"LD_LIBRARY_PATH": f"{DIST}/sim", "GPU_SIM": f"{folder}/simulation", "GPU_SIM_DEVICES": "8GiB", "ACCEPT_SIMULATE": "1"}
    return env


def no_gpu(env):
    """Why there is no GPU to check, or nothing; asked in a process of its own, as the driver leaves traces in one that it was loaded into."""
    ask = """
import ctypes, sys
try:
    driver = ctypes.CDLL("libcuda.so.1")
except OSError as e:
    sys.exit(f"no NVIDIA driver here ({e})")
code, count = driver.cuInit(0), ctypes.c_int()
if code or driver.cuDeviceGetCount(ctypes.byref(count)) or not count.value:
    sys.exit(f"no NVIDIA GPU here (cuInit: {code}, devices: {count.value})")
"""
    try:
        done = subprocess.run([sys.executable, "-c", ask], env=env, capture_output=True, text=True, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        return "the driver does not answer within 60 s"
    return done.stderr.strip().splitlines()[-1] if done.returncode else ""


def run(env, plan, simulate):
    began, records = time.monotonic(), []
    for name, limit, _, script, *args in plan:
        start = time.monotonic()
        left = BUDGET_S - (start - began)
        print(f"{start - began:6.1f} s  {name}", file=sys.stderr, flush=True)
        if left < 3:
            records.append({"check": name, "name": name, "ok": False, "value": "no time left", "unit": "", "want": ""})
            continue
        lines, problem = measure([sys.executable, f"{HERE}/{script}.py", *args], env, min(limit, left))
        found = [{"check": name, **line} for line in lines]
        if problem or not found:
            found.append({"check": name, "name": name, "ok": False, "value": problem or "it said nothing", "unit": "", "want": ""})
        records += found
        records.append({"check": name, "name": "took", "value": round(time.monotonic() - start, 1), "unit": "s", "ok": None, "want": "", "quiet": True})
    return finish(records, time.monotonic() - began, simulate)


def measure(command, env, limit):
    """The records that a check printed, and what went wrong if anything did. Whatever it started has ended afterwards."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True)
        try:
            code = process.wait(timeout=limit)
            problem = f"exit status {code}" if code else ""
        except subprocess.TimeoutExpired:
            problem = f"stopped after {limit:.0f} s"
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        out.seek(0), err.seek(0)
        lines = []
        for line in out:
            with contextlib.suppress(ValueError):
                lines.append(json.loads(line))
        if problem:
            problem += f": {' | '.join(err.read().strip().splitlines()[-2:])[-250:]}"
        return [line for line in lines if isinstance(line, dict) and "name" in line], problem


def finish(records, seconds, simulate):
    passed, failed, skipped = (sum(map(test, records)) for test in (
        lambda r: r.get("ok") is True, lambda r: r.get("ok") is False, lambda r: "skipped" in r))
    summary = {"passed": passed, "failed": failed, "skipped": skipped, "seconds": round(seconds, 1), "simulated": simulate}
    text = table(records) + f"\n{seconds:.0f} s\n{passed} passed, {failed} failed, {skipped} skipped"
    os.makedirs(OUT, exist_ok=True)
    with open(f"{OUT}/accept.json", "w") as f:
        json.dump({"version": 1, **summary, "host": platform.platform(), "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "records": records},
                  f, indent=1)
    with open(f"{OUT}/table.txt", "w") as f:
        f.write(text + "\n")
    print(text)
    return 1 if failed or not passed else 0


def table(records):
    """One line a finding: check, what, figure, judgement, and what was wanted where it is not so or not judged."""
    rows = []
    for r in records:
        if r.get("quiet"):
            continue
        if "skipped" in r:
            rows.append((r["check"], r["name"], "skipped", r["skipped"]))
            continue
        verdict = {True: "ok", False: "FAIL", None: "-"}[r["ok"]]
        figure = f"{show(r['value'])} {r['unit']}".strip()
        if "added_ns" in r:
            figure += ", " + ", ".join(f"{mode} +{ns:.0f}" if ns >= 0 else f"{mode} {ns:.0f}" for mode, ns in r["added_ns"].items())
        if r["want"] and r["ok"] is not True:
            figure += f"  (want: {r['want']})"
        rows.append((r["check"], r["name"], verdict, figure))
    widths = [max((len(row[i]) for row in rows), default=0) for i in range(3)]
    lines, last = [], None
    for check, name, verdict, figure in rows:
        shown = check if check != last else ""
        lines.append(f"{shown:{widths[0]}}  {name:{widths[1]}}  {verdict:{widths[2]}}  {figure}"[:200].rstrip())
        last = check
    return "\n".join(lines)


def show(value):
    if isinstance(value, dict):
        return " ".join(f"{k}: {show(v)}" for k, v in value.items())
    if isinstance(value, list):
        return " ".join(map(show, value))
    return str(value)[:120]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
