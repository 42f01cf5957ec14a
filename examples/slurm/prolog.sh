#!/bin/sh
# Prolog of Slurm (slurm.conf: Prolog=, PrologFlags=Alloc): as root on the node, before the job's first process. Makes a container for the
# job, with the quota of its partition, to which the processes in the job's cgroup belong. docs/slurm.md
#
# A failure drains the node, so that no job runs there without its quota; that is meant.
set -eu
PATH=${GPU_QUOTA_BIN:-/usr/bin}:/usr/local/bin:/usr/bin:/bin
quotas=${GPU_QUOTA_SLURM:-/etc/gpu-quota/slurm.conf}

: "${SLURM_JOB_ID:?this is a prolog of Slurm}" "${SLURM_JOB_PARTITION:?this is a prolog of Slurm}"

# PARTITION MEMORY SHARE, a line each.
quota=$(awk -v partition="$SLURM_JOB_PARTITION" '$1 == partition { print $2, $3; exit }' "$quotas")
[ -n "$quota" ] || exit 0

# A job that begins on this node once more (requeued, resumed) finds its container, and gives it these values.
quota-daemon set "slurm-$SLURM_JOB_ID" --create \
    --memory "${quota% *}" --compute "${quota#* }" \
    --cgroup "/system.slice/*slurmstepd.scope/job_$SLURM_JOB_ID/**" \
    --cgroup "/slurm*/uid_*/job_$SLURM_JOB_ID/**" >/dev/null
