//! What a container's root can do to what it is given.

use quota_tests::podman::text;

use super::Case;
use super::stage::Stage;

pub(crate) const CASES: &[Case] = &[
    ("its root opens the policy again, for writing", reopened),
    ("its root writes to what is mounted", written),
];

/// Through `/proc/self/fd`, `/proc/self/map_files` and in every other way that there is.
fn reopened(stage: &Stage<'_>) -> String {
    let program = stage.program("hostile_policy");
    let output = stage.run("a", &[], &format!("{} write </dev/null", program.display()));
    let text = text(&output);
    assert!(output.status.success(), "{text}");
    let tries: Vec<(&str, u32)> = text
        .lines()
        .filter_map(|line| line.split_once('='))
        .filter_map(|(name, code)| Some((name, code.parse().ok()?)))
        .collect();
    assert!(tries.len() >= 20, "{text}");
    for (name, code) in &tries {
        assert_ne!(*code, 0, "{name} succeeded: {text}");
    }
    let code = |name: &str| tries.iter().find(|(tried, _)| *tried == name).unwrap().1;
    // Not for a lack of rights, which root may have elsewhere.
    for name in [
        "reopen",
        "reopen_write",
        "reopen_truncate",
        "truncate_path",
        "mode_path",
    ] {
        assert_eq!(code(name), 30, "EROFS: {name}: {text}");
    }
    assert_eq!(stage.daemon.share("a").memory_limit_bytes, Some(2 << 30));
    format!("{} tries refused, reopening with EROFS", tries.len())
}

fn written(stage: &Stage<'_>) -> String {
    let script = "
        for file in /etc/ld.so.preload /run/gpu-quota/container/new /run/gpu-quota/container/attach.sock; do
            if (echo x >$file) 2>/dev/null; then echo \"wrote $file\"; fi
        done
        for file in /usr/local/lib/gpu-quota/*/libquota_shim.so /usr/local/lib/gpu-quota/*/*/libquota_shim.so; do
            if (echo x >>$file) 2>/dev/null; then echo \"wrote $file\"; fi
            if rm $file 2>/dev/null; then echo \"removed $file\"; fi
            if umount $file 2>/dev/null; then echo \"unmounted $file\"; fi
        done
        rm -f /etc/ld.so.preload 2>/dev/null && echo removed preload
        rm -f /run/gpu-quota/container/attach.sock 2>/dev/null && echo removed socket
        mount -o remount,rw,bind /etc/ld.so.preload 2>/dev/null && echo remounted
        echo done";
    let output = stage.run("a", &[], script);
    assert_eq!(text(&output), "done\n");
    assert!(stage.daemon.socket("a").exists());
    "nothing changed".into()
}
