#!/usr/bin/env python3
"""Prints dashboard.json: the rows of panels below, laid out.

    packaging/monitoring/make-dashboard.py > packaging/monitoring/dashboard.json

The dashboard is made here, since Grafana's own form takes thirty lines for each panel; a test of quota-daemon (metrics/tests/monitoring.rs)
holds the file to this script, and every name in it to what the daemon exports.
"""
import json

# What a viewer chooses: instance, GPU, containers.
DEVICE = 'instance=~"$instance",gpu=~"$gpu"'
SHARE = DEVICE + ',container=~"$container"'
EACH = "{{container}} on {{instance}} GPU {{gpu}}"
GPU = "{{instance}} GPU {{gpu}}"

# Each panel: title, what it says, kind, unit, width of 24, and its curves (expression, legend).
ROWS = [
    ("GPUs", [
        ("Memory", "In use on each device, by NVML, promised to containers, and what there is.", "timeseries", "bytes", 8, [
            ("gpu_quota_device_memory_used_bytes{%s}" % DEVICE, GPU + " used"),
            ("gpu_quota_device_memory_promised_bytes{%s}" % DEVICE, GPU + " promised"),
            ("gpu_quota_device_memory_bytes{%s}" % DEVICE, GPU + " in all"),
        ]),
        ("Utilisation", "By NVML: part of the time in which any kernel ran.", "timeseries", "percentunit", 8, [
            ("gpu_quota_device_utilization_ratio{%s}" % DEVICE, GPU),
        ]),
        ("Active containers", "Containers with work on the device.", "timeseries", "short", 4, [
            ("gpu_quota_active_containers{%s}" % DEVICE, GPU),
        ]),
        ("Unregistered", "Processes that use the device past the library, and what they hold.", "stat", "short", 4, [
            ("sum(gpu_quota_unregistered_processes{%s})" % DEVICE, "processes"),
            ("sum(gpu_quota_unregistered_bytes{%s}) / 1024^3" % DEVICE, "GiB"),
        ]),
    ]),
    ("Memory of containers", [
        ("Used and limit", "Held by the ledger and beyond it (overhead: contexts, modules); together they are what the limit is for.",
         "timeseries", "bytes", 12, [
             ("gpu_quota_memory_used_bytes{%s} + gpu_quota_memory_overhead_bytes{%s}" % (SHARE, SHARE), EACH),
             ("gpu_quota_memory_limit_bytes{%s}" % SHARE, EACH + " limit"),
         ]),
        ("Part of the limit in use", "At 100 % the next allocation is refused.", "bargauge", "percentunit", 6, [
            ("(gpu_quota_memory_used_bytes{%s} + gpu_quota_memory_overhead_bytes{%s}) / gpu_quota_memory_limit_bytes{%s}"
             % (SHARE, SHARE, SHARE), EACH),
        ]),
        ("Refusals", "Requests for memory that were refused, a second.", "timeseries", "ops", 6, [
            ("rate(gpu_quota_memory_refusals_total{%s}[$__rate_interval])" % SHARE, EACH),
        ]),
    ]),
    ("GPU time of containers", [
        ("Used, allowed and own", "What each used lately, may use now with loans, and has as its own.", "timeseries", "percentunit", 12, [
            ("gpu_quota_compute_used_ratio{%s}" % SHARE, EACH + " used"),
            ("gpu_quota_compute_allowed_ratio{%s}" % SHARE, EACH + " allowed"),
            ("gpu_quota_compute_own_ratio{%s}" % SHARE, EACH + " own"),
        ]),
        ("GPU time used", "Seconds of the device in each second, from the container's own count.", "timeseries", "percentunit", 12, [
            ("rate(gpu_quota_compute_seconds_total{%s}[$__rate_interval])" % SHARE, EACH),
        ]),
        ("Launches", "A second.", "timeseries", "ops", 8, [
            ("rate(gpu_quota_launches_total{%s}[$__rate_interval])" % SHARE, EACH),
        ]),
        ("Time waited", "By launches, summed over threads: 1 is one thread that waits all the time.", "timeseries", "short", 8, [
            ("rate(gpu_quota_wait_seconds_total{%s}[$__rate_interval])" % SHARE, EACH),
        ]),
        ("Length of waits", "The 95th of 100 of those that were seen.", "timeseries", "s", 8, [
            ("histogram_quantile(0.95, sum by (le, instance, container, gpu) (rate(gpu_quota_sampled_wait_seconds_bucket{%s}[$__rate_interval])))"
             % SHARE, EACH),
        ]),
    ]),
    ("Daemon", [
        ("Processes", "Registered, of each container.", "timeseries", "short", 8, [
            ('gpu_quota_processes{instance=~"$instance",container=~"$container"}', "{{container}} on {{instance}}"),
        ]),
        ("Trouble", "Warnings, questions and connections that were refused, processes that were killed.", "timeseries", "short", 8, [
            ('gpu_quota_daemon_warnings{instance=~"$instance"}', "{{instance}} warnings"),
            ('increase(gpu_quota_daemon_refused_attaches_total{instance=~"$instance"}[5m])', "{{instance}} refused"),
            ('increase(gpu_quota_daemon_refused_connections_total{instance=~"$instance"}[5m])', "{{instance}} connections refused"),
            ('increase(gpu_quota_daemon_kills_total{instance=~"$instance"}[5m])', "{{instance}} killed"),
        ]),
        ("What it takes", "CPU of the daemon; memory below.", "timeseries", "percentunit", 4, [
            ('rate(gpu_quota_daemon_cpu_seconds_total{instance=~"$instance"}[5m])', "{{instance}}"),
        ]),
        ("Its memory", "Resident.", "timeseries", "bytes", 4, [
            ('gpu_quota_daemon_resident_memory_bytes{instance=~"$instance"}', "{{instance}}"),
        ]),
    ]),
]

SOURCE = {"type": "prometheus", "uid": "${source}"}
HEIGHT = 8


def variable(name, label, of):
    """A list to choose from, of the values of a label."""
    return {
        "name": name, "label": label, "type": "query", "datasource": SOURCE, "refresh": 2, "includeAll": True, "multi": True,
        "query": of, "current": {"text": "All", "value": "$__all"}, "sort": 1,
    }


def panel(number, place, title, text, kind, unit, curves):
    return {
        "id": number, "type": kind, "title": title, "description": text, "datasource": SOURCE, "gridPos": place,
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + at), "datasource": SOURCE, "expr": expression, "legendFormat": legend}
            for at, (expression, legend) in enumerate(curves)
        ],
    }


def panels():
    number, y = 0, 0
    for title, row in ROWS:
        number += 1
        yield {"id": number, "type": "row", "title": title, "collapsed": False, "panels": [],
               "gridPos": {"h": 1, "w": 24, "x": 0, "y": y}}
        y += 1
        x = 0
        for (name, text, kind, unit, width, curves) in row:
            if x + width > 24:
                x, y = 0, y + HEIGHT
            number += 1
            yield panel(number, {"h": HEIGHT, "w": width, "x": x, "y": y}, name, text, kind, unit, curves)
            x += width
        y += HEIGHT


def main():
    dashboard = {
        "uid": "gpu-quota", "title": "gpu-quota", "tags": ["gpu"], "schemaVersion": 36, "version": 1, "editable": True,
        "timezone": "browser", "refresh": "10s", "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [
            {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus", "refresh": 1},
            variable("instance", "Host", "label_values(gpu_quota_build_info, instance)"),
            variable("gpu", "GPU", 'label_values(gpu_quota_device_memory_bytes{instance=~"$instance"}, gpu)'),
            variable("container", "Container", 'label_values(gpu_quota_processes{instance=~"$instance"}, container)'),
        ]},
        "annotations": {"list": []}, "panels": list(panels()),
    }
    print(json.dumps(dashboard, indent=1))


main()
