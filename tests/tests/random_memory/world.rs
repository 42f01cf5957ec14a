//! The processes that carry a program out, and what is compared after every step of theirs.

use std::collections::BTreeMap;

use quota_abi::devices;
use quota_abi::group::Group;
use quota_abi::ledger::Ledger;
use quota_abi::region::Mapped;
use quota_abi::slots;
use quota_tests::{Account, Answer, MIB, Sim, Steps};

use crate::model::{DEVICES, Process};

/// What the group may hold of each device.
pub(crate) const LIMITS: [u64; DEVICES] = [96 * MIB, 72 * MIB];
/// What a process is charged for its contexts on a device.
pub(crate) const CONTEXT: u64 = 2 * MIB;
/// What a pool grows by.
pub(crate) const SEGMENT: u64 = 32 * MIB;

/// A group of processes on one simulated machine.
pub(crate) struct World {
    pub(crate) processes: Vec<Member>,
    region: Mapped,
    rows: [usize; DEVICES],
    /// What was done, for whoever reads of a failure.
    pub(crate) trace: Vec<String>,
    /// What the group was charged before the step.
    usage: [u64; DEVICES],
    /// How often each function has succeeded, been refused by the quota, and answered something else.
    pub(crate) counts: BTreeMap<String, [u32; 3]>,
    /// Dropped last.
    _sim: Sim,
}

/// One process, and what it should have.
pub(crate) struct Member {
    pub(crate) model: Process,
    pub(crate) next_slot: usize,
    steps: Steps,
    /// Its slot in the region.
    slot: usize,
    /// What its pools have given back to the driver without the shim having looked since.
    unseen: [u64; DEVICES],
    /// What the driver held for its pools and graphs.
    reserve: [u64; DEVICES],
}

/// What a step asked of a device.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) device: usize,
    pub(crate) bytes: u64,
    /// Whether the request told how much will be taken; else the driver rounds it up to what pools grow by.
    pub(crate) exact: bool,
}

/// What should come of a step.
#[derive(Copy, Clone, Debug)]
pub(crate) enum Expect {
    /// It succeeds, unless the quota is in the way of this.
    Success(Option<Ask>),
    /// The same, unless the driver has something against it.
    Maybe(Option<Ask>),
    /// The driver refuses it, and nothing changes.
    Failure,
}

impl World {
    pub(crate) fn new(processes: u8) -> Self {
        let sim = Sim::new().with("GPU_SIM_DEVICES", "24GiB,24GiB");
        let quota = format!("0={},1={}", LIMITS[0], LIMITS[1]);
        let mut started: Vec<Steps> = (0..processes)
            .map(|_| {
                sim.client("steps")
                    .memory(&quota)
                    .env("GPU_QUOTA_CONTEXT", CONTEXT.to_string())
                    .watchdog(30)
                    .interpret()
            })
            .collect();
        for steps in &mut started {
            let _ = steps.quiet("cuInit 0").ok();
        }
        let region = Mapped::open(&Group::named(&sim.group("default")).path());
        let region = region.unwrap().expect("the group's region");
        let devices = started[0].step("cuCtxSynchronize").account().devices;
        let rows = [0, 1].map(|device: usize| {
            let uuid = u128::from_str_radix(&devices[device].uuid[4..].replace('-', ""), 16);
            devices::find(&region, &uuid.unwrap().to_be_bytes()).expect("the device's row")
        });
        let processes = started.into_iter().map(|steps| Member {
            model: Process::default(),
            next_slot: 0,
            slot: slots::owners(&region)
                .find(|(_, owner)| owner.pid() == steps.pid())
                .expect("the process's slot")
                .0,
            steps,
            unseen: [0; DEVICES],
            reserve: [0; DEVICES],
        });
        Self {
            processes: processes.collect(),
            region,
            rows,
            trace: Vec::new(),
            usage: [0; DEVICES],
            counts: BTreeMap::new(),
            _sim: sim,
        }
    }

    /// What the region says of a device.
    pub(crate) fn ledger(&self, device: usize) -> Ledger<'_> {
        devices::ledger(&self.region, self.rows[device]).expect("the device's words")
    }

    /// Calls the driver.
    pub(crate) fn call(&mut self, process: usize, line: &str) -> Answer {
        let answer = self.processes[process].steps.step(line);
        let code = answer.code.map_or("absent".into(), |code| code.to_string());
        self.trace.push(format!("  {process}: {line} -> {code}"));
        let symbol = line.split(' ').next().unwrap_or_default();
        let kind = match answer.code {
            Some(0) => 0,
            Some(2) => 1,
            _ => 2,
        };
        self.counts.entry(symbol.into()).or_default()[kind] += 1;
        answer
    }

    /// A buffer of one process, copied to the same one of another.
    pub(crate) fn copy_buffer(&mut self, from: usize, to: usize, buffer: u32) {
        let text = self.processes[from].steps.get(buffer);
        self.processes[to].steps.put(buffer, &text);
    }

    /// Fills a buffer.
    pub(crate) fn put(&mut self, process: usize, buffer: u32, bytes: &[u8]) {
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        self.processes[process].steps.put(buffer, &text);
    }

    /// What process and group are charged by the rules: exact bytes, reserves and contexts.
    fn wanted(&self, process: usize, account: &Account, device: usize) -> (u64, u64) {
        let member = &self.processes[process];
        let pid = member.steps.pid();
        let shown = &account.devices[device].processes;
        let (exact, requested) = shown
            .iter()
            .find(|shown| shown.pid == pid)
            .map_or((0, 0), |shown| (shown.exact, shown.requested));
        let context = if member.model.has_contexts(device) {
            CONTEXT
        } else {
            0
        };
        (exact + context, requested - exact)
    }

    /// Compares everything with everything. `waits`: the driver waits in this call for work of its own accord, and may give back
    /// reserves, of which the documentation says nothing; the shim learns of that when it looks again.
    pub(crate) fn check(
        &mut self,
        process: usize,
        answer: &Answer,
        expect: Expect,
        waits: bool,
    ) -> Result<(), String> {
        let account = answer.account();
        for (device, limit) in LIMITS.into_iter().enumerate() {
            for index in 0..self.processes.len() {
                self.compare(index, &account, device, waits && index == process)?;
            }
            let shown = &account.devices[device];
            if shown.peak_exact > limit {
                return Err(format!(
                    "device {device} held {} exact bytes at once",
                    shown.peak_exact
                ));
            }
        }
        let verdict = match expect {
            Expect::Failure if answer.success() => Err("the driver's error was expected".into()),
            Expect::Success(ask) => self.judge(answer, ask),
            Expect::Maybe(ask) if matches!(answer.code, Some(0 | 2)) => self.judge(answer, ask),
            Expect::Failure | Expect::Maybe(_) => Ok(()),
        };
        self.usage = [0, 1].map(|device| self.ledger(device).usage());
        verdict
    }

    /// One process's words with its account, and its account with the model.
    fn compare(
        &mut self,
        process: usize,
        account: &Account,
        device: usize,
        waits: bool,
    ) -> Result<(), String> {
        let (exact, reserve) = self.wanted(process, account, device);
        let held = self.ledger(device).held_by(self.processes[process].slot);
        let member = &mut self.processes[process];
        let context = if member.model.has_contexts(device) {
            CONTEXT
        } else {
            0
        };
        let of = format!("process {process}, device {device}");
        let model = member.model.exact(device) + context;
        if member.model.busy {
            // Frees take effect when the work before them is done. What is held is charged at least.
            member.reserve[device] = reserve;
            member.unseen[device] = held.saturating_sub(exact + reserve);
            if exact < model || held < exact + reserve {
                return Err(format!(
                    "{of}: charged {held}, holds {exact} exactly and {reserve} in reserve, {model} in the model"
                ));
            }
            return Ok(());
        }
        if exact != model {
            return Err(format!(
                "{of}: the simulator holds {exact} exact bytes, the model {model}"
            ));
        }
        let given = member.reserve[device].saturating_sub(reserve);
        member.reserve[device] = reserve;
        if waits {
            member.unseen[device] += given;
        }
        let most = exact + reserve + member.unseen[device];
        if held < exact + reserve || held > most {
            return Err(format!(
                "{of}: charged {held}, but holds {exact} exactly and {reserve} in reserve{}",
                match member.unseen[device] {
                    0 => String::new(),
                    unseen => format!(" (and {unseen} given back unseen)"),
                }
            ));
        }
        member.unseen[device] = held - exact - reserve;
        Ok(())
    }

    /// What the group may still take of a device.
    pub(crate) fn room(&self, device: usize) -> u64 {
        LIMITS[device].saturating_sub(self.ledger(device).usage())
    }

    /// Whether what was asked for would fit by now.
    pub(crate) fn fits(&self, ask: Ask) -> bool {
        let usage = self.ledger(ask.device).usage();
        usage.saturating_add(ask.bytes) <= LIMITS[ask.device]
    }

    /// Whether the answer is right for what was asked.
    fn judge(&self, answer: &Answer, ask: Option<Ask>) -> Result<(), String> {
        let Some(Ask {
            device,
            bytes,
            exact,
        }) = ask
        else {
            return match answer.code {
                Some(0) => Ok(()),
                code => Err(format!("success was expected, not {code:?}")),
            };
        };
        let limit = LIMITS[device];
        let usage = self.ledger(device).usage();
        match answer.code {
            // Nothing grows above the limit. (It may be above it: by what a stream has still to give back of a refused request.)
            Some(0) if usage > limit && usage > self.usage[device] => {
                Err(format!("admitted up to {usage} of {limit}"))
            }
            Some(0) => Ok(()),
            Some(2) => {
                if exact && answer.calls > 0 {
                    return Err("refused, and the driver was called".into());
                }
                let grain = if answer.calls > 0 { SEGMENT } else { 1 };
                let bytes = bytes.checked_next_multiple_of(grain).unwrap_or(u64::MAX);
                if usage.saturating_add(bytes) <= limit {
                    return Err(format!(
                        "refused: {bytes} more than {usage} are not more than {limit}"
                    ));
                }
                Ok(())
            }
            code => Err(format!("success or a refusal was expected, not {code:?}")),
        }
    }

    /// What the driver holds for a process's pools and graphs.
    pub(crate) fn reserve(&self, process: usize, device: usize) -> u64 {
        self.processes[process].reserve[device]
    }

    /// What the process is shown, after which nothing of its own on that device is unseen.
    pub(crate) fn looked(
        &mut self,
        process: usize,
        device: usize,
        answer: &Answer,
    ) -> Result<(), String> {
        let usage = self.ledger(device).usage();
        let free = LIMITS[device].saturating_sub(usage);
        if answer.out != [free, LIMITS[device]] {
            return Err(format!(
                "shown are (free, total) {:?} with {usage} of {} in use",
                answer.out, LIMITS[device]
            ));
        }
        match self.processes[process].unseen[device] {
            0 => Ok(()),
            unseen => Err(format!(
                "{unseen} bytes that the driver gave back are still charged"
            )),
        }
    }

    /// After a program: nothing is held and nothing charged.
    pub(crate) fn empty(&self) -> Result<(), String> {
        for device in 0..DEVICES {
            let usage = self.ledger(device).usage();
            if usage != 0 {
                return Err(format!(
                    "{usage} bytes of device {device} are charged at the end"
                ));
            }
        }
        Ok(())
    }
}
