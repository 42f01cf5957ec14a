//! The engine in closed loops: programs that launch as fast as they are let, or as they can.

use cuda_headers::driver::CUresult;

use crate::gpu::Gpu;
use crate::model::{FOREVER, MS, Model, Process, US};

/// Runs `step` for `seconds`, and returns the share of the GPU that was busy, in per mille of the time.
fn share(model: &Model, seconds: u64, mut step: impl FnMut()) -> f64 {
    let begin = model.now();
    let end = begin + seconds * 1000 * MS;
    while model.now() < end {
        step();
    }
    model.busy(begin, end) as f64 * 1000.0 / (end - begin) as f64
}

#[track_caller]
fn within_a_point(what: &str, percent: u32, got: f64) {
    println!("{what}: {percent} % asked, {:.2} % got", got / 10.0);
    let asked = f64::from(percent) * 10.0;
    assert!((got - asked).abs() <= 10.0, "{what}: {percent} %: {got}");
}

const RATES: [u32; 5] = [2, 10, 30, 50, 80];
const KERNELS: [u64; 8] = [
    5 * US,
    20 * US,
    100 * US,
    300 * US,
    MS,
    5 * MS,
    50 * MS,
    200 * MS,
];

/// Long enough that the first, unmeasured launches do not count.
fn seconds_for(kernel: u64, percent: u32) -> u64 {
    (kernel * 4000 / u64::from(percent) / MS).clamp(1, 400)
}

#[test]
fn alone_and_ahead_of_the_gpu() {
    for percent in RATES {
        for kernel in KERNELS {
            // The legacy stream is treated with more care than others.
            let streams: &[usize] = if percent == 30 {
                &[0, 0x5000]
            } else {
                &[0x5000]
            };
            for &stream in streams {
                let (model, process) = (Model::new(), Process::new(percent));
                let seconds = seconds_for(kernel, percent);
                let got = share(&model, seconds, || {
                    process.launch(&model, stream, 7, kernel);
                });
                within_a_point(
                    &format!("{} us, stream {stream:x}", kernel / US),
                    percent,
                    got,
                );
            }
        }
    }
}

#[test]
fn alone_and_synchronised_after_each_launch() {
    for percent in RATES {
        for kernel in KERNELS {
            let (model, process) = (Model::new(), Process::new(percent));
            let seconds = seconds_for(kernel, percent);
            let possible = kernel * 1000 / (kernel + 20 * US);
            let got = share(&model, seconds, || {
                process.launch(&model, 0, 7, kernel);
                process.engine.pause(&model, &process.thread, None);
                model.synchronise(1);
                process.engine.resume(&model, &process.thread);
            });
            if possible > u64::from(percent) * 10 + 50 {
                within_a_point(&format!("{} us, synchronised", kernel / US), percent, got);
            } else {
                assert!(got <= f64::from(percent) * 10.0 + 10.0, "{kernel}: {got}");
            }
        }
    }
}

#[test]
fn a_host_that_hardly_keeps_up_is_held_all_the_same() {
    // 10 us kernels launched every 12 us: 83 % of the GPU if nobody limits it.
    for percent in [20, 50, 80] {
        let (model, process) = (Model::new(), Process::new(percent));
        model.launch_ns.set(12 * US);
        let got = share(&model, 2, || process.launch(&model, 0x5000, 7, 10 * US));
        within_a_point("10 us every 12 us", percent, got);
    }
}

#[test]
fn a_program_below_its_limit_is_not_slowed() {
    // 5 us of work every 50 us is 10 %.
    let (model, process) = (Model::new(), Process::new(30));
    model.launch_ns.set(50 * US);
    let got = share(&model, 3, || process.launch(&model, 0x5000, 7, 5 * US));
    assert!(got > 95.0, "{got}");
    assert!(model.slept.get() < 60 * MS, "{}", model.slept.get());
}

#[test]
fn several_streams_are_charged_once() {
    for percent in [10, 30, 70] {
        for kernel in [20 * US, 100 * US, MS, 5 * MS] {
            let (model, process) = (Model::new(), Process::new(percent));
            let mut turn = 0;
            let got = share(&model, 3, || {
                turn = (turn + 1) % 4;
                process.launch(&model, 0x5000 + turn * 0x100, 7, kernel);
            });
            println!(
                "four streams, {} us: {percent} % asked, {got:.0} got",
                kernel / US
            );
            assert!(got <= f64::from(percent) * 10.0 + 10.0);
            assert!(got >= f64::from(percent) * 6.0);
        }
    }
}

#[test]
fn mixtures_of_lengths_hold() {
    for percent in [10, 30, 70] {
        // Many functions; one function of one shape with two lengths; lengths that change for good.
        let (model, process) = (Model::new(), Process::new(percent));
        let mut count = 0_u64;
        let got = share(&model, 20, || {
            count += 1;
            let name = (count % 37) as usize;
            process.launch(&model, 0x5000, name, 5 * US + name as u64 * 11 * US);
        });
        within_a_point("37 functions", percent, got);

        let (model, process) = (Model::new(), Process::new(percent));
        let got = share(&model, 20, || {
            count = count
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let ns = if count >> 40 & 1 == 0 {
                30 * US
            } else {
                2 * MS
            };
            process.launch(&model, 0x5000, 7, ns);
        });
        within_a_point("one shape, two lengths", percent, got);

        let (model, process) = (Model::new(), Process::new(percent));
        let got = share(&model, 60, || {
            let phase = model.now() / (1000 * MS) % 3;
            let ns = [50 * US, 4 * MS, 400 * US][phase as usize];
            process.launch(&model, 0x5000, 7, ns);
        });
        println!("phases: {percent} % asked, {got:.0} got");
        assert!((got - f64::from(percent) * 10.0).abs() < 20.0);
    }
}

#[test]
fn a_new_shape_at_every_launch_holds() {
    for percent in [10, 50] {
        let (model, process) = (Model::new(), Process::new(percent));
        let mut name = 0;
        let got = share(&model, 20, || {
            name += 1;
            process.launch(&model, 0x5000, name, 200 * US);
        });
        within_a_point("always a new function", percent, got);
    }
}

/// From the very first one: a graph that nobody has seen is held like anything else.
#[test]
fn the_first_launches_of_graphs_are_held() {
    for percent in [2, 10, 50] {
        for ns in [100 * US, 2 * MS, 10 * MS] {
            // One graph that is launched again and again; a new one each time.
            for graphs in [1, 1_000_000] {
                let (model, process) = (Model::new(), Process::new(percent));
                let mut count = 0;
                let seconds = if percent == 2 { 4 } else { 1 };
                let got = share(&model, seconds, || {
                    count += 1;
                    process.launch_graph(&model, 0x5000, count % graphs * 16, ns);
                });
                println!("graphs of {} us: {percent} % asked, {got:.0} got", ns / US);
                // A new graph counts as 2 ms until it ends.
                let queued = 3.0 * ns as f64 / (seconds * MS) as f64;
                assert!(got <= f64::from(percent) * 10.0 + 10.0 + queued, "{got}");
            }
        }
    }
}

/// One kernel of 50 ms for each process, one process after the other, as command line tools and test runners do.
#[test]
fn short_lived_processes_are_held_as_one() {
    let bucket = Process::new(10).bucket;
    let model = Model::new();
    let mut count = 0;
    let got = share(&model, 60, || {
        let process = Process::with_bucket(10, bucket);
        process.launch(&model, 0x5000, 7, 50 * MS);
        model.synchronise(0x5000);
        // Every other one ends without looking; what it is charged is what the others took.
        count += 1;
        if count % 2 == 1 {
            process.engine.resume(&model, &process.thread);
        }
    });
    within_a_point("processes of one kernel of 50 ms", 10, got);
}

#[test]
fn joined_launches_are_learned_without_markers_between_them() {
    let (model, process) = (Model::new(), Process::new(30));
    let mut count = 0;
    let got = share(&model, 20, || {
        count += 1;
        process.launch_joined(&model, 0x5000, count % 5, 60 * US, count % 10 != 0);
    });
    within_a_point("nine of ten joined", 30, got);
    // All joined: measured once in a while only.
    let (model, process) = (Model::new(), Process::new(30));
    let got = share(&model, 20, || {
        process.launch_joined(&model, 0x5000, 7, 60 * US, true);
    });
    println!("all joined: {got:.0}");
    assert!((200.0..=310.0).contains(&got), "{got}");
}

#[test]
fn two_processes_share_one_bucket_and_debt_is_inherited() {
    let (model, first) = (Model::new(), Process::new(30));
    for _ in 0..3 {
        first.launch(&model, 0x5000, 7, 300 * MS);
        model.synchronise(0x5000);
        first.engine.resume(&model, &first.thread);
    }
    let debt = first.bucket.level();
    assert!(debt < -100 * 1_000_000, "{debt}");
    let second = Process::with_bucket(30, first.bucket);
    let begin = model.now();
    second.launch(&model, 0x5000, 7, MS);
    assert!(model.now() - begin > 300 * MS, "{}", model.now() - begin);
}

#[test]
fn a_kernel_that_never_ends_delays_others_by_a_bounded_time() {
    for percent in [2, 30] {
        let (model, process) = (Model::new(), Process::new(percent));
        model.pass(50 * MS);
        process.launch(&model, 0x5000, 1, FOREVER);
        let mut longest = 0;
        for launch in 0..50 {
            let begin = model.now();
            process.launch(&model, 0x5100, 2 + launch % 3, 20 * US);
            longest = longest.max(model.now() - begin);
        }
        println!("{percent} %: longest launch {} us", longest / US);
        assert!(longest <= 320 * MS, "{longest}");
    }
}

/// What it lasted before was known; that it lasts until a later launch this time must not make that one wait
/// for as long.
#[test]
fn a_long_kernel_that_now_waits_for_a_later_launch_is_not_waited_for() {
    let (model, process) = (Model::new(), Process::new(2));
    for _ in 0..3 {
        process.launch(&model, 0x5000, 1, 500 * MS);
        model.synchronise(0x5000);
        process.engine.resume(&model, &process.thread);
        model.pass(30_000 * MS);
    }
    process.launch(&model, 0x5000, 1, FOREVER);
    let begin = model.now();
    process.launch(&model, 0x5100, 2, 20 * US);
    let took = model.now() - begin;
    println!("launched {} ms after", took / MS);
    assert!(took < 200 * MS, "{took}");
}

#[test]
fn what_waits_on_every_stream_still_gets_launched() {
    // Eight kernels of one shape, none of which ends before the last is launched.
    let (model, process) = (Model::new(), Process::new(2));
    let begin = model.now();
    for stream in 0..8 {
        process.launch(&model, 0x5000 + stream * 0x100, 1, FOREVER);
    }
    let took = model.now() - begin;
    println!(
        "eight kernels that wait for each other: launched in {} ms",
        took / MS
    );
    assert!(took < 2_000 * MS, "{took}");
}

/// A kernel that spins until a later one on another stream has run, which is launched behind some work. Each of the three
/// launches is held for as long as the cap asks, but not the spinning kernel's time for as long.
#[test]
fn kernels_that_wait_for_a_later_launch_get_it_soon() {
    for percent in [2, 10, 30, 50, 80, 95] {
        let (model, process) = (Model::new(), Process::new(percent));
        let mut longest = 0;
        let mut used_from = 0;
        for round in 0..400 {
            // The first time, nothing is known of any of them.
            if round == 2 {
                used_from = model.now();
            }
            let begin = model.now();
            process.launch(&model, 0x5000, 1, FOREVER);
            process.launch(&model, 0x5100, 2, 100 * US);
            process.launch(&model, 0x5100, 3, 5 * US);
            let stored = model.idle_at(0x5100) - model.now();
            model.release(stored);
            process.engine.pause(&model, &process.thread, None);
            model.synchronise(0x5000);
            process.engine.resume(&model, &process.thread);
            if round >= 2 {
                longest = longest.max(model.now() - begin);
            }
        }
        let share = model.busy(used_from, model.now()) * 1000 / (model.now() - used_from);
        println!(
            "pairs: {percent} % asked, {share} per mille got, longest {} us",
            longest / US
        );
        assert!(
            share.abs_diff(u64::from(percent) * 10) <= 10 || percent >= 80,
            "{share}"
        );
        // What 5 ms of spinning cost.
        assert!(longest * u64::from(percent) < 500 * MS, "{longest}");
    }
}

/// Nothing of this makes room for kernels that only look as if they were waiting: those of a stream that does not go on.
#[test]
fn beside_a_stream_that_hangs_the_limit_holds() {
    for percent in RATES {
        for kernel in [20 * US, MS, 5 * MS, 50 * MS] {
            let (model, process) = (Model::new(), Process::new(percent));
            process.launch(&model, 0x5000, 1, 20 * US);
            model.synchronise(0x5000);
            process.engine.resume(&model, &process.thread);
            model.set_idle_at(0x5000, FOREVER);
            for _ in 0..3 {
                process.launch(&model, 0x5000, 1, 20 * US);
                process.engine.pause(&model, &process.thread, None);
            }
            // Until they are known, five kinds of long kernels get ahead of the share by what is queued.
            let seconds = seconds_for(kernel, percent) * if kernel > 10 * MS { 48 } else { 4 };
            let mut name = 1;
            let got = share(&model, seconds.max(10), || {
                name = name % 5 + 1;
                process.launch(&model, 0x5100, name, kernel);
            });
            within_a_point(
                &format!("{} us beside a stream that hangs", kernel / US),
                percent,
                got,
            );
        }
    }
}

/// More streams than are looked at in one go do not go on; the rest is settled all the same.
#[test]
fn beside_many_streams_that_hang_the_limit_holds() {
    let (model, process) = (Model::new(), Process::new(10));
    for stream in 0..40 {
        let stream = 0x6000 + stream * 0x100;
        model.set_idle_at(stream, FOREVER);
        process.launch(&model, stream, 1, 20 * US);
        process.engine.pause(&model, &process.thread, None);
    }
    let got = share(&model, 100, || process.launch(&model, 0x5000, 2, MS));
    within_a_point("1 ms beside 40 streams that hang", 10, got);
    let reading = process.bucket.read();
    assert!(reading.measured > 9_000 * MS, "{reading:?}");
}

#[test]
fn a_captured_launch_is_neither_charged_nor_delayed() {
    let (model, process) = (Model::new(), Process::new(2));
    for _ in 0..20 {
        process.launch(&model, 0x5000, 1, 5 * MS);
    }
    let used = process.bucket.used();
    let (begin, records) = (model.now(), model.records.get());
    process.engine.capture(true);
    model.capturing.set(0x5100);
    model.launch_ns.set(0);
    for _ in 0..1000 {
        process.launch(&model, 0x5100, 2, 0);
    }
    assert_eq!(model.now(), begin);
    assert_eq!(process.bucket.used(), used);
    assert_eq!(model.records.get(), records);
    // Beside the capture, other streams are held as ever.
    for _ in 0..5 {
        process.launch(&model, 0x5000, 1, 5 * MS);
    }
    assert!(model.now() - begin > 500 * MS);
    model.capturing.set(0);
    process.engine.capture(false);
    assert!(!process.engine.is_capturing());
}

/// Fills and copies are charged by their bytes and never measured; the kernels around them are.
#[test]
fn transfers_are_charged_by_their_bytes() {
    use crate::shape::Stream;
    let (model, process) = (Model::new(), Process::new(50));
    // 1 GB/ms: 50 MB take 50 us.
    process.engine.device(0).unwrap().set_bandwidth(1_000_000);
    let stream = Stream {
        handle: 0x5000,
        per_thread: false,
    };
    let got = share(&model, 2, || {
        process.launch(&model, 0x5000, 7, 50 * US);
        let copied = || {
            model.launch(0x5000, 50 * US);
            CUresult::CUDA_SUCCESS
        };
        let answer = process
            .engine
            .transfer(&model, &process.thread, stream, 48_000_000, &copied);
        assert_eq!(answer, CUresult::CUDA_SUCCESS);
    });
    // Each kernel is measured by itself, to half a microsecond.
    println!("a kernel and a copy in turn: 50 % asked, {got:.0} got");
    assert!((got - 500.0).abs() < 15.0, "{got}");
}

#[test]
fn events_are_rare() {
    let (model, process) = (Model::new(), Process::new(50));
    let mut launches = 0_u64;
    share(&model, 1, || {
        launches += 1;
        process.launch(&model, 0x5000, 7, 5 * US);
    });
    let per_launch = model.records.get() as f64 / launches as f64;
    println!("{per_launch:.4} events a launch of 5 us");
    assert!(per_launch < 0.05, "{per_launch}");
}

#[test]
fn counters_tell_what_happened() {
    let (model, process) = (Model::new(), Process::new(50));
    for _ in 0..1000 {
        process.launch(&model, 0x5000, 7, 100 * US);
    }
    model.synchronise(0x5000);
    process.engine.pause(&model, &process.thread, None);
    process.launch(&model, 0x5000, 7, 100 * US);
    let reading = process.bucket.read();
    assert!((995..=1001).contains(&reading.launches), "{reading:?}");
    assert!(reading.measured > 75 * MS, "{reading:?}");
    assert!(
        reading.waited.abs_diff(model.slept.get()) < MS,
        "{reading:?}"
    );
    assert!(
        reading.used > 95 * MS && reading.used < 110 * MS,
        "{reading:?}"
    );
    assert_eq!(reading.rate_ppm, 500_000);
}
