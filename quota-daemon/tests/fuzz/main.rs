//! Ten million wrong inputs: mutations of valid ones, thrown at everything that reads what a tenant or a stranger can write.
//!
//! `cargo xtask fuzz` runs this for as long as one likes; `cargo test` for a second or two. A panic, an overflow (debug
//! assertions are on), an abort or an input that takes a minute is a finding: the seed is printed first, the input is saved
//! in `target/fuzz`. Coverage-guided fuzzing (cargo-fuzz) needs a nightly compiler; here what guides is the answer: an input
//! that is answered as none before joins the corpus.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that fails fails"
)]

mod corpus;
mod daemon;
mod mutate;
mod random;
mod recipe;
mod region;
mod settings;
mod targets;
mod watch;

use corpus::Corpus;
use random::Random;
use settings::Settings;
use targets::{ALL, Target};

#[test]
fn frames() {
    let settings = Settings::get();
    let watch = watch::Watch::start();
    let mut random = Random::new(settings.seed);
    let mut corpora: Vec<(Target, Corpus)> =
        ALL.map(|target| (target, Corpus::load(target))).into();
    // What the corpus keeps once did harm, or stands for an answer: all of it, before anything is drawn.
    for (target, corpus) in &mut corpora {
        for input in corpus.inputs().to_vec() {
            let outcome = watch.run(*target, &input, || target.feed(&input));
            corpus.answered(&outcome, &input, false);
        }
    }
    let turns: u64 = ALL.iter().map(|target| target.weight()).sum();
    for number in 0..settings.frames {
        let mut turn = number % turns;
        let index = ALL.iter().position(|target| {
            let mine = turn < target.weight();
            turn = turn.saturating_sub(target.weight());
            mine
        });
        let (target, corpus) = &mut corpora[index.unwrap()];
        let input = corpus.draw(&mut random);
        let outcome = watch.run(*target, &input, || target.feed(&input));
        corpus.answered(&outcome, &input, settings.keep);
    }
    for (target, corpus) in &corpora {
        eprintln!("{target:?}: {} different answers", corpus.answers());
        assert!(
            corpus.answers() > 2,
            "{target:?} always answers the same: its corpus is of no use"
        );
    }
}

#[test]
fn regions() {
    let settings = Settings::get();
    let watch = watch::Watch::start();
    let mut random = Random::new(settings.seed);
    let mut world = region::World::new();
    for recipe in recipe::kept() {
        let text = recipe.to_string();
        watch.run("region", text.as_bytes(), || world.feed(&recipe));
    }
    for _ in 0..settings.regions {
        let recipe = recipe::Recipe::draw(&mut random);
        let text = recipe.to_string();
        watch.run("region", text.as_bytes(), || world.feed(&recipe));
    }
    eprintln!("{}", world.seen());
    world.check_coverage();
}

#[test]
fn daemon() {
    let settings = Settings::get();
    let watch = watch::Watch::start();
    let mut random = Random::new(settings.seed);
    let mut daemon = daemon::Daemon::start();
    daemon.attach();
    let questions = Corpus::load(Target::Question);
    let kept = recipe::kept();
    for number in 0..settings.daemon {
        let recipe = match usize::try_from(number)
            .ok()
            .and_then(|number| kept.get(number))
        {
            Some(kept) => kept.clone(),
            None => recipe::Recipe::draw(&mut random),
        };
        let text = recipe.to_string();
        watch.run("daemon", text.as_bytes(), || {
            daemon.spoil(&recipe, number % 20 == 0)
        });
        if number % 4 == 0 {
            let bytes = questions.draw(&mut random);
            let answer = watch.run("socket", &bytes, || daemon.ask(&bytes));
            assert!(answer.is_empty() || quota_abi::wire::Answer::decode(&answer).is_ok());
        }
    }
    // What this process asked by chance may have been granted, as what it is; it is still served.
    daemon.attach();
    let sound = daemon.kept();
    let mut answers = std::collections::BTreeMap::<String, u32>::new();
    for _ in 0..settings.daemon.div_ceil(20) {
        let [client, kept] = sound.each_ref().map(|bytes| {
            let mut bytes = bytes.clone();
            mutate::mutate(&mut bytes, &sound[1], true, &mut random);
            bytes
        });
        let answer = watch.run("reborn", &[&client[..], b"\n", &kept].concat(), || {
            daemon.reborn(&client, &kept)
        });
        *answers.entry(answer).or_default() += 1;
    }
    eprintln!("{answers:#?}");
    daemon.reborn(&sound[0], &sound[1]);
    daemon.attach();
}
