//! The files of the package, where they will lie.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::Machine;
use crate::workspace;

/// The package's name, and so that of its folders.
const NAME: &str = "gpu-quota";

/// Files as they are: what is taken (from the repository's root), where to, and whether it is packed.
const FILES: [(&str, &str, bool); 18] = [
    (
        "packaging/debian/config.toml",
        "etc/gpu-quota/config.toml",
        false,
    ),
    (
        "packaging/systemd/gpu-quota.service",
        "lib/systemd/system/gpu-quota.service",
        false,
    ),
    (
        "packaging/systemd/regions.mount",
        r"lib/systemd/system/run-gpu\x2dquota-regions.mount",
        false,
    ),
    (
        "packaging/systemd/tmpfiles.conf",
        "usr/lib/tmpfiles.d/gpu-quota.conf",
        false,
    ),
    (
        "packaging/debian/copyright",
        "usr/share/doc/gpu-quota/copyright",
        false,
    ),
    (
        "packaging/debian/README.Debian",
        "usr/share/doc/gpu-quota/README.Debian",
        false,
    ),
    (
        "packaging/debian/changelog",
        "usr/share/doc/gpu-quota/changelog.gz",
        true,
    ),
    (
        "CHANGELOG.md",
        "usr/share/doc/gpu-quota/CHANGELOG.md.gz",
        true,
    ),
    ("README.md", "usr/share/doc/gpu-quota/README.md.gz", true),
    (
        "docs/operations.md",
        "usr/share/doc/gpu-quota/operations.md.gz",
        true,
    ),
    (
        "docs/containers.md",
        "usr/share/doc/gpu-quota/containers.md.gz",
        true,
    ),
    (
        "docs/install.md",
        "usr/share/doc/gpu-quota/install.md.gz",
        true,
    ),
    (
        "docs/threat-model.md",
        "usr/share/doc/gpu-quota/threat-model.md.gz",
        true,
    ),
    (
        "packaging/systemd/kill.conf",
        "usr/share/doc/gpu-quota/examples/kill.conf",
        false,
    ),
    (
        "packaging/monitoring/alerts.yaml",
        "usr/share/doc/gpu-quota/examples/alerts.yaml",
        false,
    ),
    (
        "packaging/monitoring/dashboard.json",
        "usr/share/doc/gpu-quota/examples/dashboard.json",
        false,
    ),
    (
        "examples/slurm/prolog.sh",
        "usr/share/doc/gpu-quota/examples/slurm/prolog.sh",
        false,
    ),
    (
        "examples/slurm/epilog.sh",
        "usr/share/doc/gpu-quota/examples/slurm/epilog.sh",
        false,
    ),
];

/// Where a file of the packaging lies in the repository.
pub(super) fn source(file: &str) -> PathBuf {
    workspace::root().join("packaging").join(file)
}

/// Fills `root` with what is installed.
pub(super) fn fill(root: &Path, library: &Path, daemon: &Path, machine: &Machine) -> Result<()> {
    let home = root.join("usr/lib").join(NAME);
    put(&home.join("libquota_shim.so"), &read(library)?, 0o644)?;
    put(&root.join("usr/bin/quota-daemon"), &read(daemon)?, 0o755)?;
    // The name for an `ld.so.preload` of the host itself: /usr/$LIB/gpu-quota/libquota_shim.so.
    let by_lib = root.join("usr/lib").join(machine.multiarch).join(NAME);
    fs::create_dir_all(&by_lib)?;
    symlink(
        "../../gpu-quota/libquota_shim.so",
        by_lib.join("libquota_shim.so"),
    )?;
    fs::create_dir_all(root.join("etc/gpu-quota/conf.d"))?;
    for (from, to, packed) in FILES {
        let bytes = read(&workspace::root().join(from))?;
        let bytes = if packed { pack(&bytes)? } else { bytes };
        let mode = if to.ends_with(".sh") { 0o755 } else { 0o644 };
        put(&root.join(to), &bytes, mode)?;
    }
    pages(root, daemon)?;
    completions(root, daemon)
}

/// The manual, as the command itself prints it.
fn pages(root: &Path, daemon: &Path) -> Result<()> {
    let folder = tempfile::tempdir()?;
    say(daemon, &["man", "--dir"], Some(folder.path()))?;
    let mut found = 0;
    for entry in fs::read_dir(folder.path())? {
        let page = entry?.path();
        let name = page.file_name().unwrap_or_default().to_string_lossy();
        let to = root.join("usr/share/man/man1").join(format!("{name}.gz"));
        put(&to, &pack(&read(&page)?)?, 0o644)?;
        found += 1;
    }
    if found < 2 {
        bail!("`quota-daemon man --dir` wrote {found} pages");
    }
    Ok(())
}

fn completions(root: &Path, daemon: &Path) -> Result<()> {
    for (shell, to) in [
        ("bash", "usr/share/bash-completion/completions/quota-daemon"),
        ("zsh", "usr/share/zsh/vendor-completions/_quota-daemon"),
        (
            "fish",
            "usr/share/fish/vendor_completions.d/quota-daemon.fish",
        ),
    ] {
        let script = say(daemon, &["completions", shell], None)?;
        put(&root.join(to), &script, 0o644)?;
    }
    Ok(())
}

/// What dpkg itself is told: control, checksums, which files are the administrator's, and what it runs.
pub(super) fn add_control(root: &Path, control: &str) -> Result<()> {
    let sums = sums(root)?;
    let folder = root.join("DEBIAN");
    put(&folder.join("control"), control.as_bytes(), 0o644)?;
    put(&folder.join("md5sums"), &sums, 0o644)?;
    put(
        &folder.join("conffiles"),
        b"/etc/gpu-quota/config.toml\n",
        0o644,
    )?;
    for script in ["postinst", "prerm", "postrm"] {
        let text = read(&source(&format!("debian/{script}")))?;
        put(&folder.join(script), &text, 0o755)?;
    }
    Ok(())
}

/// Checksums of all files, but for those of the administrator.
fn sums(root: &Path) -> Result<Vec<u8>> {
    let script = "find usr lib -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum";
    let output = Command::new("sh")
        .args(["-c", script])
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        bail!("md5sum ended with {}", output.status);
    }
    // Of a name with a backslash it says so by one in front, which dpkg does not know.
    let text = String::from_utf8(output.stdout).context("names are text")?;
    let lines = text.lines().map(|line| match line.strip_prefix('\\') {
        Some(line) => line.replace(r"\\", r"\"),
        None => line.to_owned(),
    });
    Ok(lines
        .flat_map(|line| format!("{line}\n").into_bytes())
        .collect())
}

/// Packs without a name and a time, so that the same file is the same bytes.
fn pack(bytes: &[u8]) -> Result<Vec<u8>> {
    use std::io::Write;

    let mut child = Command::new("gzip")
        .args(["-9n"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start gzip")?;
    let mut input = child.stdin.take().context("gzip has an input")?;
    let output = std::thread::scope(|scope| {
        let writer = scope.spawn(move || input.write_all(bytes));
        let output = child.wait_with_output();
        writer.join().map_or(Ok(()), |written| written)?;
        output
    })?;
    if !output.status.success() {
        bail!("gzip ended with {}", output.status);
    }
    Ok(output.stdout)
}

/// What the daemon's own command prints.
fn say(daemon: &Path, words: &[&str], last: Option<&Path>) -> Result<Vec<u8>> {
    let output = Command::new(daemon)
        .args(words)
        .args(last.map(Path::as_os_str).map(OsStr::to_owned))
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| {
            format!(
                "cannot run {}, which prints its own manual: it is for another machine?",
                daemon.display()
            )
        })?;
    if !output.status.success() {
        bail!(
            "quota-daemon {} ended with {}",
            words.join(" "),
            output.status
        );
    }
    Ok(output.stdout)
}

fn read(file: &Path) -> Result<Vec<u8>> {
    fs::read(file).with_context(|| format!("cannot read {}", file.display()))
}

fn put(file: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    let folder = file.parent().context("a file has a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    fs::write(file, bytes).with_context(|| format!("cannot write {}", file.display()))?;
    fs::set_permissions(file, fs::Permissions::from_mode(mode))?;
    Ok(())
}
