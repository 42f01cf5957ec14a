//! GPU time: several containers at once on one GPU.

use std::time::Duration;

use quota_tests::Work;

use super::Case;
use super::stage::Stage;

pub(crate) const CASES: &[Case] = &[
    ("two containers at once, 30 % and 50 %", two_at_once),
    ("one of two is paused while it holds the GPU", paused),
];

pub(crate) const WORK: Work = Work {
    seed: 3,
    kernel_ns: 300_000,
    most_mib: 1500,
};

fn two_at_once(stage: &Stage<'_>) -> String {
    let loads = [stage.load("a", &[], WORK), stage.load("b", &[], WORK)];
    for load in &loads {
        load.goes_on(30);
    }
    let [a, b] = stage.shares(["a", "b"], 1500);
    for load in loads {
        let ended = load.end().ok();
        assert!(ended.number("launches") > 0);
    }
    assert!(
        (10.0..45.0).contains(&a) && (25.0..65.0).contains(&b),
        "{a:.1} % and {b:.1} %"
    );
    format!("{a:.0} % and {b:.0} %")
}

/// Frozen in the middle of whatever it does, it keeps its memory, and nobody waits for it.
fn paused(stage: &Stage<'_>) -> String {
    let frozen = format!("frozen-{}", std::process::id());
    let name = format!("--name={frozen}");
    let first = stage.load("w1", &[&name], WORK);
    let second = stage.load("w2", &[], WORK);
    let [both, _] = stage.shares(["w1", "w2"], 800);
    stage.podman.ok(&["pause", &frozen]);
    let held = stage.daemon.share("w1").memory_used_bytes;
    // Its share is the other's at once as before; what it leaves is lent when it has said nothing for a second.
    second.goes_on(50);
    let [_, own] = stage.shares(["w1", "w2"], 600);
    std::thread::sleep(Duration::from_millis(700));
    let [none, alone] = stage.shares(["w1", "w2"], 800);
    assert_eq!(
        stage.daemon.share("w1").memory_used_bytes,
        held,
        "it keeps what it holds"
    );
    assert!(held > 0);
    stage.podman.ok(&["unpause", &frozen]);
    first.goes_on(30);
    let [again, other] = stage.shares(["w1", "w2"], 800);
    for load in [first, second] {
        let _ = load.end().ok();
    }
    assert!(both > 20.0, "{both:.1} % of two");
    assert!(own > 9.0, "{own:.1} % right after the other was paused");
    assert!(
        none < 1.0 && alone > 70.0,
        "paused {none:.1} %, beside it {alone:.1} %"
    );
    assert!(
        again > 20.0 && other > 20.0,
        "then {again:.1} % and {other:.1} %"
    );
    format!(
        "beside it {own:.0} %, a second later {alone:.0} %; afterwards {again:.0} % and {other:.0} %"
    )
}
