//! What files mean, what is refused and in which words.

mod change;
mod properties;
mod refused;

use std::collections::BTreeMap;

use super::*;
use crate::model::{Compute, Uuid};

/// A configuration of these files.
fn read(texts: &[&str]) -> Result<Config, Problems> {
    let names = ["config.toml", "conf.d/a.toml", "conf.d/b.toml"];
    let file = |(name, text): (&&str, &&str)| File {
        path: name.into(),
        text: (*text).into(),
    };
    Config::read(&names.iter().zip(texts).map(file).collect::<Vec<_>>())
}

const GIB: u64 = 1 << 30;

#[test]
fn nothing_is_a_daemon_without_containers_that_admits_nobody() {
    let config = read(&[""]).unwrap();
    assert_eq!(config.daemon, DaemonSettings::default());
    assert_eq!((config.default, config.containers.len()), (None, 0));
    assert_eq!(read(&[]).unwrap().files, Vec::<PathBuf>::new());
}

#[test]
fn the_daemons_own() {
    let config = read(&[
        r#"
        [daemon]
        state = "/srv/quota"
        group = "root"
        metrics = "127.0.0.1:9400"
        log = "warn"
        log_format = "json"
        oversubscribe = 1.5
        unregistered = "kill"
        "#,
        "daemon = { turns = true, context = \"300MiB\" }",
    ]);
    let expected = DaemonSettings {
        state: "/srv/quota".into(),
        group: Some(Group {
            name: "root".into(),
            gid: 0,
        }),
        metrics: Some(([127, 0, 0, 1], 9400).into()),
        log: "warn".into(),
        log_format: LogFormat::Json,
        oversubscribe: Oversubscribe::By(1.5),
        unregistered: Unregistered::Kill,
        turns: true,
        context_bytes: Some(300 << 20),
    };
    assert_eq!(config.unwrap().daemon, expected);
}

#[test]
fn containers_as_devices() {
    assert_eq!(read(&["[cdi]"]).unwrap().cdi, CdiSettings::default());
    let config = read(&[
        "[cdi]\npublish = true\nkind = \"example.com/gpu\"\n",
        "cdi = { preload = \"env\", library = \"/opt/libquota_shim.so\" }",
    ]);
    let expected = CdiSettings {
        publish: Some("/var/run/cdi".into()),
        kind: "example.com/gpu".parse().unwrap(),
        preload: Preload::Env,
        library: Some("/opt/libquota_shim.so".into()),
    };
    assert_eq!(config.unwrap().cdi, expected);
    let elsewhere = read(&["[cdi]\npublish = \"/srv/cdi\""]).unwrap();
    assert_eq!(elsewhere.cdi.publish, Some("/srv/cdi".into()));
}

#[test]
fn oversubscription() {
    for (text, expected, most) in [
        ("false", Oversubscribe::No, Some(100)),
        ("true", Oversubscribe::Any, None),
        ("1", Oversubscribe::No, Some(100)),
        ("1.5", Oversubscribe::By(1.5), Some(150)),
        ("2", Oversubscribe::By(2.0), Some(200)),
    ] {
        let config = read(&[&format!("[daemon]\noversubscribe = {text}")]).unwrap();
        assert_eq!(config.daemon.oversubscribe, expected, "{text}");
        assert_eq!(expected.most(100), most);
    }
}

#[test]
fn containers_and_their_devices() {
    let config = read(&[r#"
        [daemon]
        context = "300MiB"

        [default]
        memory = "1GiB"
        weight = 1
        cgroups = ["/kubepods.slice/**"]

        [[container]]
        name = "a"
        cgroups = ["/a.slice/*", "/b/**"]
        memory = "4GiB"
        weight = 5
        cap = "50%"
        priority = -1

        [container.device."1"]
        memory = "none"
        observe = true

        [container.device."GPU-00112233-4455-6677-8899-aabbccddeeff"]
        compute = 0.3
        context = 0

        [[container]]
        name = "b"
        priority = 7
        device."0" = { memory = 1073741824 }
        "#]);
    let config = config.unwrap();
    let every = Quota {
        memory_bytes: Some(4 * GIB),
        compute: Compute::Share {
            weight: 5,
            cap_ppm: Some(500_000),
        },
        priority: -1,
        context_bytes: Some(300 << 20),
        observe: false,
    };
    let uuid = "GPU-00112233-4455-6677-8899-aabbccddeeff".parse::<Uuid>();
    let [a, b] = &config.containers[..] else {
        panic!("{config:?}");
    };
    let expected = Spec {
        name: "a".into(),
        origin: Origin::Config,
        cgroups: vec!["/a.slice/*".into(), "/b/**".into()],
        every: Some(every),
        devices: BTreeMap::from([
            (
                Selector::Index(1),
                Quota {
                    memory_bytes: None,
                    observe: true,
                    ..every
                },
            ),
            (
                Selector::Uuid(uuid.unwrap()),
                Quota {
                    compute: Compute::Limit { ppm: 300_000 },
                    context_bytes: Some(0),
                    ..every
                },
            ),
        ]),
    };
    assert_eq!(*a, expected);
    let only = Quota {
        memory_bytes: Some(GIB),
        priority: 7,
        context_bytes: Some(300 << 20),
        ..Quota::default()
    };
    assert_eq!(b.every, None, "no other device");
    assert_eq!(b.devices, BTreeMap::from([(Selector::Index(0), only)]));
    let rule = config.default.unwrap();
    assert_eq!(rule.cgroups, ["/kubepods.slice/**"]);
    let spec = rule.spec("pod-1");
    assert_eq!(
        (spec.name.as_str(), spec.origin),
        ("pod-1", Origin::Default)
    );
    assert_eq!(spec.every.unwrap().memory_bytes, Some(GIB));
}

#[test]
fn files_are_read_in_order_and_a_missing_one_is_told() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("b.toml", "[[container]]\nname = \"b\"\nmemory = \"1g\""),
        ("a.toml", "[[container]]\nname = \"a\"\nmemory = \"1g\""),
        ("c.toml.off", "nonsense"),
    ] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let source = Source {
        config: Some(folder.path().into()),
        state: Some("/x".into()),
        log: Some("trace".into()),
        ..Source::default()
    };
    let config = source.load().unwrap();
    let names: Vec<_> = config.containers.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(config.files.len(), 2);
    assert_eq!(config.daemon.state, Path::new("/x"));
    assert_eq!(config.daemon.log, "trace");

    let missing = folder.path().join("none.toml");
    let text = Config::open(&[&missing]).unwrap_err().to_string();
    assert!(
        text.starts_with(&format!("{}: No such file", missing.display())),
        "{text}"
    );
    std::fs::write(folder.path().join("latin.toml"), b"# ok\n# \xe4").unwrap();
    let text = source.load().unwrap_err().to_string();
    assert!(text.contains("latin.toml:2:3: is not UTF-8"), "{text}");
}
