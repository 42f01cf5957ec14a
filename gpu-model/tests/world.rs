//! The model itself: the same seed gives the same run, and programs that nobody limits have what a driver would give them.

use gpu_model::cell::{Scheme, Setup, Tenant};
use gpu_model::outcome::Outcome;
use gpu_model::params::{MS, SECOND, US};
use gpu_model::{stage, workload};
use quota_daemon::model::Compute;

#[expect(clippy::unwrap_used, reason = "a test")]
fn run(scheme: Scheme, tenants: Vec<Tenant>, seed: u64) -> Outcome {
    let setup = Setup {
        warm_up: 100 * MS,
        measured: SECOND,
        seed,
        ..Setup::new(scheme, tenants)
    };
    stage::run(&setup).unwrap()
}

fn free(program: workload::Program) -> Tenant {
    Tenant::new(Compute::Free, program)
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let tenants = || {
        let share = |weight| Compute::Share {
            weight,
            cap_ppm: None,
        };
        vec![
            Tenant::new(share(1), workload::mixture()),
            Tenant::new(share(3), workload::training()),
        ]
    };
    let busy = |seed| {
        let outcome = run(Scheme::Turns, tenants(), seed);
        let all = outcome.got.iter().flatten();
        all.map(|got| got.busy.total()).collect::<Vec<_>>()
    };
    assert_eq!(busy(1), busy(1));
    assert_ne!(busy(1), busy(2));
}

#[test]
fn bare_programs_have_slices_in_turn() {
    for (one, other) in [(20 * US, 20 * US), (5 * MS, 100 * US)] {
        let tenants = vec![
            free(workload::saturate(one)),
            free(workload::saturate(other)),
        ];
        let got = run(Scheme::Bare, tenants, 1).got;
        for tenant in &got {
            assert!(
                (490.0..500.0).contains(&tenant[0].share),
                "{}",
                tenant[0].share
            );
        }
    }
}

#[test]
fn a_bare_program_has_the_whole_device_and_a_full_queue_holds_it() {
    let got = run(Scheme::Bare, vec![free(workload::saturate(MS))], 1).got;
    assert!(got[0][0].share > 999.0, "{}", got[0][0].share);
    // The queue was full before: one launch for each kernel that ends.
    assert!(
        (990.0..=1010.0).contains(&got[0][0].launches),
        "{}",
        got[0][0].launches
    );
    assert!(got[0][0].events < 1.0);
}

#[test]
fn who_waits_for_each_kernel_leaves_gaps() {
    let got = run(Scheme::Bare, vec![free(workload::one_by_one(100 * US))], 1).got;
    // Launch, way to the GPU, and the end of the wait: 12 to 20 us.
    assert!(
        (820.0..890.0).contains(&got[0][0].share),
        "{}",
        got[0][0].share
    );
}

#[test]
fn nobody_limited_pays_for_measuring() {
    let tenants = vec![free(workload::saturate(20 * US))];
    let got = run(Scheme::Turns, tenants, 1).got;
    assert!(got[0][0].events < 1.0, "{}", got[0][0].events);
    assert!(got[0][0].share > 998.0, "{}", got[0][0].share);
}
