//! Images of other kinds.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use quota_tests::artefacts;
use quota_tests::podman::text;

use super::Case;
use super::stage::{Stage, limited};

pub(crate) const CASES: &[Case] = &[
    ("an image without a distribution", small),
    ("an image whose libraries lie in lib64", lib64),
    ("an image with a preload file of its own: env", by_variable),
    (
        "an image with a preload file of its own: none",
        by_the_image,
    ),
    ("a 32-bit program", program_of_32_bits),
];

fn small(stage: &Stage<'_>) -> String {
    let rootfs = stage.files.join("small");
    let run = |mib| stage.run_in("a", &[], rootfs.to_str().unwrap(), &stage.hold("", mib));
    limited(&run(3000), &run(1500))
}

/// As on Red Hat's and SUSE's kin: with a loader that was built with `lib64`. Debian has one for another machine's use.
fn lib64(stage: &Stage<'_>) -> String {
    let built = Path::new("/usr/i686-linux-gnu/lib64");
    if !built.join("ld-linux-x86-64.so.2").exists() {
        return "skipped: no such loader here (libc6-amd64-i386-cross)".into();
    }
    let rootfs = copy_of_small(stage, "lib64");
    let (debian, lib64) = (
        rootfs.join("usr/lib/x86_64-linux-gnu"),
        rootfs.join("usr/lib64"),
    );
    for entry in fs::read_dir(&debian).unwrap() {
        let file = entry.unwrap().path();
        fs::rename(&file, lib64.join(file.file_name().unwrap())).unwrap();
    }
    for name in ["ld-linux-x86-64.so.2", "libc.so.6"] {
        fs::copy(built.join(name), lib64.join(name)).unwrap();
    }
    let driver = artefacts().sim.join("libcuda.so.1");
    let driver = format!("--volume={}:/usr/lib64/libcuda.so.1:ro", driver.display());
    let rootfs = rootfs.to_str().unwrap();
    let run = |mib| stage.run_in("a", &[&driver], rootfs, &stage.hold("", mib));
    limited(&run(3000), &run(1500))
}

fn copy_of_small(stage: &Stage<'_>, name: &str) -> PathBuf {
    let rootfs = stage.files.join(name);
    let mut copy = Command::new("cp");
    copy.arg("-a").arg(stage.files.join("small")).arg(&rootfs);
    assert!(copy.status().unwrap().success());
    rootfs
}

/// Devices that preload otherwise, beside the daemon's own, for as long as this lives.
struct Other {
    kind: String,
    file: String,
}

impl Other {
    fn new(stage: &Stage<'_>, preload: &str) -> Self {
        let kind = format!(
            "test-{}.{preload}.gpu-quota.io/container",
            std::process::id()
        );
        let file = format!("/var/run/cdi/{}.json", kind.replace('/', "-"));
        let config = stage.daemon.config();
        let output = stage.daemon.type_in(&[
            "cdi",
            "generate",
            "a",
            "--kind",
            &kind,
            "--preload",
            preload,
            "--output",
            &file,
            "--config",
            config.to_str().unwrap(),
        ]);
        assert!(output.status.success(), "{}", text(&output));
        assert!(
            text(&output).contains(&format!("--device {kind}=a")),
            "{}",
            text(&output)
        );
        Self { kind, file }
    }

    fn run(&self, stage: &Stage<'_>, rootfs: &Path, script: &str) -> std::process::Output {
        let device = format!("--device={}=a", self.kind);
        let flags = [&device, "--env=GPU_SIM_TENANT=a"];
        stage.podman.run(
            "--rm",
            &flags,
            rootfs.to_str().unwrap(),
            &["sh", "-c", script],
        )
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.file);
    }
}

/// An image that preloads a library of its own.
fn with_preload(stage: &Stage<'_>, name: &str, text: &str) -> PathBuf {
    let rootfs = copy_of_small(stage, name);
    fs::write(rootfs.join("etc/ld.so.preload"), text).unwrap();
    rootfs
}

fn by_variable(stage: &Stage<'_>) -> String {
    let rootfs = with_preload(stage, "with-preload", "/usr/lib/libown.so\n");
    let own = rootfs.join("usr/lib/libown.so");
    let source = stage.files.join("own.c");
    fs::write(&source, "int puts(const char *); __attribute__((constructor)) static void here(void) { puts(\"own\"); }\n").unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-o"]).arg(own).arg(source);
    assert!(cc.status().unwrap().success());
    let other = Other::new(stage, "env");
    let run = |mib| other.run(stage, &rootfs, &stage.hold("exec", mib));
    let (more, less) = (run(3000), run(1500));
    assert!(
        text(&more).contains("own\n"),
        "the image's own is loaded: {}",
        text(&more)
    );
    limited(&more, &less) + ", and the image's own loaded"
}

fn by_the_image(stage: &Stage<'_>) -> String {
    let rootfs = with_preload(
        stage,
        "names-ours",
        "/usr/local/lib/gpu-quota/$LIB/libquota_shim.so\n",
    );
    let other = Other::new(stage, "none");
    let run = |mib| {
        other.run(
            stage,
            &rootfs,
            &format!("env -i {}", stage.bare_hold("a", mib)),
        )
    };
    limited(&run(3000), &run(1500))
}

/// It is not limited, since no 32-bit driver uses these GPUs; and it prints nothing that it does not print without the library.
fn program_of_32_bits(stage: &Stage<'_>) -> String {
    if !cfg!(target_arch = "x86_64") {
        return "skipped: not on this machine".into();
    }
    let Some(loader) = ["/lib/ld-linux.so.2", "/lib32/ld-linux.so.2"]
        .into_iter()
        .find(|loader| Path::new(loader).exists())
    else {
        return "skipped: no 32-bit C library (libc6-i386)".into();
    };
    let source = stage.files.join("small32.c");
    fs::write(&source, PROGRAM_32).unwrap();
    let program = stage.files.join("small32");
    let mut cc = Command::new("cc");
    cc.args([
        "-m32",
        "-fno-pic",
        "-no-pie",
        "-nostdlib",
        "-nostartfiles",
        "-Wl,--no-as-needed",
    ]);
    // The library is named, so that the program goes through the loader.
    cc.arg(format!("-Wl,-dynamic-linker,{loader}"))
        .arg("-o")
        .arg(&program)
        .arg(&source);
    cc.arg(libc32());
    let made = cc.output().unwrap();
    assert!(made.status.success(), "{}", text(&made));
    let run = stage.run("a", &[], &format!("exec {}", program.display()));
    assert_eq!(text(&run), "32 bits\n");
    let hidden = stage.run(
        "a",
        &[],
        &format!("LD_PRELOAD=/nothing.so exec {}", program.display()),
    );
    assert!(
        text(&hidden).contains("/nothing.so"),
        "the loader speaks where it has reason to: {}",
        text(&hidden)
    );
    "runs, and prints nothing of the library".into()
}

fn libc32() -> &'static str {
    let places = [
        "/lib32/libc.so.6",
        "/lib/i386-linux-gnu/libc.so.6",
        "/usr/lib32/libc.so.6",
    ];
    places
        .into_iter()
        .find(|place| Path::new(place).exists())
        .unwrap()
}

const PROGRAM_32: &str = r#"
long write(int, const void *, unsigned long);
void _exit(int);
void _start(void) {
    write(1, "32 bits\n", 8);
    _exit(0);
}
"#;
