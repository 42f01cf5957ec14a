//! The words in which a configuration is refused.

use super::read;

/// Each text beside everything that is said of it.
const REFUSED: &[(&str, &[&str])] = &[
    (
        "[daemon]\nmetrcs = \"x\"\nturns = \"yes\"\n",
        &[
            "config.toml:2:1: [daemon] has no key \"metrcs\"; did you mean metrics?",
            "config.toml:3:9: turns = \"yes\" is neither true nor false",
        ],
    ),
    (
        "[demon]\n[daemon]\nzzzzzzzzz = 1\n",
        &[
            "config.toml:1:2: the configuration has no key \"demon\"; did you mean daemon?",
            "config.toml:3:1: [daemon] has no key \"zzzzzzzzz\"; it has state, group, metrics, log, log_format, \
             oversubscribe, unregistered, turns, context",
        ],
    ),
    (
        "[daemon]\nstate = \"run\"\ngroup = \"no-such-group-here\"\nmetrics = \":9400\"\nlog = \"loud\"\n\
         log_format = \"xml\"\noversubscribe = 0.5\nunregistered = true\n",
        &[
            "config.toml:2:9: state = \"run\" does not begin with '/'; write for example state = \"/run/gpu-quota\"",
            "config.toml:3:9: group = \"no-such-group-here\" is no group of this host; make it with groupadd --system",
            "config.toml:4:11: metrics = \":9400\" is no address and port; write for example 127.0.0.1:9400",
            "config.toml:5:7: log = \"loud\" is neither one of off, error, warn, info, debug, trace nor a list of \
             directives like info,quota_daemon=debug",
            "config.toml:6:14: log_format = \"xml\" is none of auto, human, json and journald",
            "config.toml:7:17: oversubscribe = 0.5 is neither true, false, nor a factor of at least 1, as 1.5",
            "config.toml:8:16: unregistered = true is not a text in quotes",
        ],
    ),
    (
        "[cdi]\npublish = \"cdi\"\nkind = \"mine\"\npreload = \"no\"\nlibrary = \"x.so\"\nlist = 1\n",
        &[
            "config.toml:2:11: publish = \"cdi\" is neither true, false, nor a directory, as \"/var/run/cdi\"",
            "config.toml:3:8: kind = \"mine\" has no '/'; write for example gpu-quota.io/container",
            "config.toml:4:11: preload = \"no\" is none of replace, env and none",
            "config.toml:5:11: library = \"x.so\" does not begin with '/'; write for example \
             \"/usr/local/lib/gpu-quota/libquota_shim.so\"",
            "config.toml:6:1: [cdi] has no key \"list\"; it has publish, kind, preload, library",
        ],
    ),
    (
        "cdi = 1\n",
        &["config.toml:1:1: the configuration: cdi is one table: write [cdi]"],
    ),
    (
        "[[container]]\nname = \"a\"\n",
        &[
            "config.toml:1:1: container \"a\": it does not say its memory; add memory = \"4GiB\", or memory = \"none\" \
             for no limit",
        ],
    ),
    (
        "[[container]]\nmemory = \"much\"\ncompute = \"130%\"\nweight = 0\ncap = \"x\"\npriority = 1.5\n\
         observe = 1\ncontext = true\n",
        &[
            "config.toml:1:1: a container: it has no name; add name = \"team-a\"",
            "config.toml:2:10: memory = \"much\" is not a positive number; write for example memory = \"4GiB\"",
            "config.toml:3:11: compute = \"130%\" is more than 100 %; write for example compute = \"30%\"",
            "config.toml:4:1: a container: compute is a hard cap and weight a share with loans: give one of them",
            "config.toml:4:10: weight = 0 is not between 1 and 10000",
            "config.toml:5:7: cap = \"x\" is not a positive number; write for example cap = \"50%\"",
            "config.toml:6:12: priority = 1.5 is not a whole number; write for example priority = 5",
            "config.toml:7:11: observe = 1 is neither true nor false",
            "config.toml:8:11: context = true is true or false; write for example context = \"400MiB\"",
        ],
    ),
    (
        "[[container]]\nname = \"ä\" # ä\nmemory = \"1g\"\ncap = \"50%\"\n",
        &[
            "config.toml:2:8: name = \"ä\" may have letters, digits, '.', '_' and '-', and not begin with '.'",
            "config.toml:4:1: container \"ä\": cap bounds a weight: give weight as well, or compute alone",
        ],
    ),
    (
        "[container]\nname = \"a\"\n[[default]]\nmemory = \"1g\"\n",
        &[
            "config.toml:1:2: the configuration: every container is one of several: write [[container]]",
            "config.toml:3:3: the configuration: default is one table: write [default]",
        ],
    ),
    (
        "[default]\ncgroups = []\nmemory = \"1g\"\nname = \"x\"\n",
        &[
            "config.toml:2:11: cgroups = [] is no list; write for example cgroups = [\"/kubepods.slice/**\"]",
            "config.toml:4:1: [default] has no key \"name\"; it has memory, compute, weight, cap, priority, observe, \
             context, cgroups, device",
        ],
    ),
    (
        "[[container]]\nname = \"a\"\ncgroups = [\"x\", 3, \"/a\",\n  \"/a\"]\n[container.device.\"gpu0\"]\ncompute = 30\n\
         [container.device.\"0\"]\nmemory = \"1g\"\n[container.device.\"00\"]\nmemory = \"1g\"\n",
        &[
            "config.toml:3:12: \"x\" does not begin with '/', as a path below /sys/fs/cgroup does",
            "config.toml:3:17: cgroups = 3 is not a text in quotes",
            "config.toml:4:3: \"/a\" was given at config.toml:3; one rule for each cgroup",
            "config.toml:5:19: container \"a\", device \"gpu0\": it does not say its memory; add memory = \"4GiB\", or \
             memory = \"none\" for no limit",
            "config.toml:5:19: container \"a\", device \"gpu0\": it is named neither by number nor by UUID; write \"0\" \
             or \"GPU-<uuid>\"",
            "config.toml:9:19: container \"a\", device \"00\": it is named twice; leave one of them",
        ],
    ),
    (
        "[[container]]\nname = \"a\"\nname = \"b\"\nmemory = 4GiB\n",
        &[
            "config.toml:3:1: this is no TOML: duplicate key",
            "config.toml:4:10: this is no TOML: string values must be quoted, expected literal string",
        ],
    ),
];

#[test]
fn each_is_told_with_its_place_and_its_mend() {
    for (text, expected) in REFUSED {
        let problems = match read(&[text]) {
            Ok(config) => panic!("{text}\nis taken as {config:?}"),
            Err(problems) => problems.to_string(),
        };
        let lines: Vec<_> = problems.lines().collect();
        assert_eq!(lines, *expected, "{text}");
    }
}

#[test]
fn what_several_files_say_twice_is_refused_with_both_places() {
    let problems = read(&[
        "[daemon]\nturns = true\n[default]\nmemory = \"1g\"\n[[container]]\nname = \"a\"\nmemory = \"1g\"\n",
        "daemon.turns = false\n[default]\nmemory = \"1g\"\n[[container]]\nmemory = \"1g\"\nname = \"a\"\n",
        "x = [",
    ]);
    let text = problems.unwrap_err().to_string();
    let expected = [
        "conf.d/a.toml:1:8: [daemon]: turns was given at config.toml:2; leave one of them",
        "conf.d/a.toml:2:2: the configuration: [default] was given at config.toml:3; leave one of them",
        "conf.d/a.toml:6:1: container \"a\": this name was given at config.toml:6; give each container its own",
        "conf.d/b.toml:1:6: this is no TOML: unclosed array, expected `]`",
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn what_is_no_toml_at_all_is_told_at_a_few_places() {
    let text = "a b\n".repeat(100_000);
    let problems = read(&[&text]).unwrap_err();
    assert_eq!(problems.list().len(), 20);
}
