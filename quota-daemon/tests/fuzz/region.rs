//! A usage region in a file, spoilt and read as the daemon reads it, and everything that is derived from what was read.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt as _;

use quota_abi::bucket::{Kind, Rate};
use quota_abi::events::{self, Event, What};
use quota_abi::layout::{DEVICES, Region, SLOTS};
use quota_abi::policy::{Loan, Turn, map};
use quota_abi::region::Mapped;
use quota_abi::region::snapshot::Snapshot;
use quota_abi::sync::Ordering::Relaxed;
use quota_abi::{devices, slots};
use quota_daemon::model::{Compute, Uuid};
use quota_daemon::sharing::{Controller, DeviceView, Member, Reading, Settings, own_ppm};

use crate::recipe::{Change, Recipe};

/// The devices that the region knows, and one that it does not.
pub(crate) const UUIDS: [[u8; 16]; 3] = [[1; 16], [2; 16], [3; 16]];
const SHARE: Compute = Compute::Share {
    weight: 5,
    cap_ppm: None,
};
const NOW: u64 = 1 << 44;

/// What was seen, so that a run that only ever refuses is known for what it is.
#[derive(Debug, Default)]
struct Seen {
    read: u64,
    refused: u64,
    events: u64,
    busy: u64,
    active: u64,
    lent: u64,
    held: u64,
}

/// The file, and who reads it.
pub(crate) struct World {
    file: File,
    sound: Vec<u8>,
    snapshot: Snapshot,
    head: Snapshot,
    controller: Controller,
    policies: [map::Write; 2],
    now: u64,
    seen: Seen,
}

fn memory_file() -> File {
    rustix::fs::memfd_create("fuzz", rustix::fs::MemfdFlags::CLOEXEC)
        .unwrap()
        .into()
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            sound: sound(),
            // Another file: what is mapped must not be cut.
            file: memory_file(),
            snapshot: Snapshot::new().unwrap(),
            head: Snapshot::new().unwrap(),
            controller: Controller::new(Settings { turns: true }),
            policies: [(); 2].map(|()| {
                let policy = map::Write::from_file(memory_file().as_fd()).unwrap();
                policy.rows[0]
                    .rate
                    .store(own_ppm(SHARE, [SHARE; 2].into_iter()).unwrap(), Relaxed);
                policy
            }),
            now: NOW,
            seen: Seen::default(),
        }
        .written()
    }

    fn written(self) -> Self {
        self.file.write_all_at(&self.sound, 0).unwrap();
        self
    }

    /// Spoils, reads, mends.
    pub(crate) fn feed(&mut self, recipe: &Recipe) {
        let mut resized = false;
        for change in &recipe.0 {
            match *change {
                Change::Poke(offset, value) => self
                    .file
                    .write_all_at(&value.to_le_bytes(), offset)
                    .unwrap(),
                Change::Size(bytes) => {
                    self.file.set_len(bytes).unwrap();
                    resized = true;
                }
            }
        }
        self.now += 10_000_000;
        let head = self.head.read_head(self.file.as_fd()).ok();
        self.seen.active += share(
            &mut self.controller,
            self.now,
            head,
            &self.policies,
            &mut self.seen.lent,
        );
        match self.snapshot.read(self.file.as_fd()) {
            Ok(region) => {
                self.seen.read += 1;
                derive(region, &mut self.seen);
            }
            Err(error) => {
                self.seen.refused += 1;
                assert!(!format!("{error:?}").is_empty());
            }
        }
        if resized {
            self.file.set_len(0).unwrap();
            self.file.write_all_at(&self.sound, 0).unwrap();
        } else {
            for change in &recipe.0 {
                if let Change::Poke(offset, _) = *change {
                    let at = usize::try_from(offset).unwrap();
                    self.file
                        .write_all_at(&self.sound[at..at + 8], offset)
                        .unwrap();
                }
            }
        }
    }

    pub(crate) fn seen(&self) -> String {
        format!("{:?}", self.seen)
    }

    /// A corpus or a reader that has lost its use shows as a count of nothing.
    pub(crate) fn check_coverage(&self) {
        let Seen {
            read,
            refused,
            events,
            busy,
            active,
            lent,
            held,
        } = self.seen;
        for count in [read, refused, events, busy, active, lent, held] {
            assert!(count > 0, "{:?}", self.seen);
        }
    }
}

/// The bytes of a region that an honest container has left.
pub(crate) fn sound() -> Vec<u8> {
    let file = memory_file();
    let region = Mapped::from_file(file.as_fd(), c"fuzz").unwrap();
    fill(&region);
    let mut sound = vec![0; size_of::<Region>()];
    file.read_exact_at(&mut sound, 0).unwrap();
    sound
}

fn fill(region: &Region) {
    for uuid in &UUIDS[..2] {
        let device = devices::index_of(region, uuid).unwrap();
        let bucket = &region.buckets[device];
        bucket.refill(NOW, Rate::from_ppm(250_000).unwrap());
        bucket.charge(5_000_000);
        bucket.count_wait(1_000, false);
        bucket.learn(Kind::Graph, 1_000);
        for slot in 0..3 {
            region.slots[slot]
                .owner
                .store(4711 | 1 << 22 | (slot as u64) << 40, Relaxed);
            region.slots[slot].busy.store(3, Relaxed);
            region.memory[device][slot].store(1 << 40, Relaxed);
        }
    }
    region.header.high_water.store(3, Relaxed);
    for what in [What::Refusal, What::Wait] {
        for asked in 0..40 {
            let event = Event {
                at: NOW,
                pid: 4711,
                asked,
                ..Event::default()
            };
            events::note(region, what, &event);
        }
    }
}

/// One step of the controller: the spoilt container beside an honest one. How many it takes for active.
fn share(
    controller: &mut Controller,
    now: u64,
    head: Option<&Region>,
    policies: &[map::Write; 2],
    lent: &mut u64,
) -> u64 {
    let honest = Reading {
        refilled_at: now,
        waits: now,
        launches: now,
        busy: true,
        ..Reading::default()
    };
    let spoilt =
        head.and_then(|region| Reading::of(1 << 40, region, &UUIDS[0], |slot, _| slot < 2));
    let member = |container: usize, reading| Member {
        container: container as u64,
        compute: SHARE,
        priority: 0,
        observe: false,
        reading,
        row: &policies[container].rows[0],
    };
    let view = DeviceView {
        uuid: Uuid(UUIDS[0]),
        members: vec![member(0, Some(honest)), member(1, spoilt)],
    };
    assert!(controller.step(now, &[view]).is_some());
    let rates = policies.each_ref().map(|policy| {
        let row = &policy.rows[0];
        let loan = Loan(row.loan.load(Relaxed)).rate(now);
        *lent += u64::from(loan.is_some());
        loan.unwrap_or(0).max(row.rate.load(Relaxed))
    });
    let active = policies
        .each_ref()
        .map(|policy| policy.rows[0].active_until.load(Relaxed) > now);
    assert!(active[0], "the honest one is active");
    if active[1] {
        // With turns each has all of it, one at a time.
        let turns = policies
            .each_ref()
            .map(|policy| Turn(policy.rows[0].turn.load(Relaxed)));
        let own = turns.iter().filter(|turn| turn.until() != 0).count();
        assert!(own <= 1, "{turns:?}");
        assert!(
            rates[0] + rates[1] < 1_000_000 || rates == [1_000_000; 2],
            "{rates:?}"
        );
    }
    assert!(rates[0] >= 499_999);
    u64::from(active[1])
}

/// Everything that is made of a whole region for reports.
fn derive(region: &Region, seen: &mut Seen) {
    for (slot, owner) in slots::owners(region) {
        assert!(slot < SLOTS);
        let _ = (owner.pid(), owner.is_live());
    }
    for device in 0..DEVICES {
        let _ = devices::uuid_of(&region.devices[device]);
        let bucket = &region.buckets[device];
        let reading = bucket.read();
        let _ = (
            reading,
            bucket.rate(),
            bucket.typical(Kind::Kernel),
            bucket.typical(Kind::Graph),
        );
        let ledger = devices::ledger(region, device).unwrap();
        seen.held += u64::from(ledger.usage() > 0);
        for slot in 0..SLOTS {
            let _ = (ledger.held_by(slot), ledger.word(slot));
        }
    }
    for uuid in &UUIDS {
        let reading = Reading::of(1 << 40, region, uuid, |slot, _| slot < 2);
        seen.busy += u64::from(reading.is_some_and(|reading| reading.busy));
    }
    for what in [What::Refusal, What::Wait] {
        for event in events::last(region, what) {
            seen.events += 1;
            let _ = (event.level(), event.at);
        }
    }
}
