#!/bin/sh
# Epilog of Slurm (slurm.conf: Epilog=): as root on the node, after the job's last process. docs/slurm.md
set -eu
PATH=${GPU_QUOTA_BIN:-/usr/bin}:/usr/local/bin:/usr/bin:/bin

# 3: it had none. A process that hangs in the kernel keeps its container; the daemon removes nothing that is in use.
quota-daemon remove "slurm-$SLURM_JOB_ID" >/dev/null || [ $? -eq 3 ]
