#!/bin/sh
# TaskProlog of Slurm: as the user, before each task; what it prints is put into the task's environment. Needed only where the library
# is not in the host's own /etc/ld.so.preload. docs/slurm.md
state=${GPU_QUOTA_STATE:-/run/gpu-quota}
library=${GPU_QUOTA_SHIM:-/usr/lib/gpu-quota/libquota_shim.so}

if [ -d "$state/containers/slurm-$SLURM_JOB_ID" ]; then
    echo "export GPU_QUOTA_SOCKET=$state/containers/slurm-$SLURM_JOB_ID"
    echo "export LD_PRELOAD=$library${LD_PRELOAD:+:$LD_PRELOAD}"
fi
