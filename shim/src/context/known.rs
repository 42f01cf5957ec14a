//! The contexts that are known, by handle and by device.

use cuda_headers::driver::{CUcontext, CUgreenCtx};
use quota_abi::sync::{AtomicU32, Ordering};

use crate::device::Device;
use crate::recent::Recent;
use crate::table::Table;

/// The contexts of this process by handle.
pub(crate) struct Contexts {
    known: Table<Known>,
    /// Number of its device, by green context.
    pub(super) greens: Table<u16>,
    recent: Recent,
    next: AtomicU32,
    ends: AtomicU32,
    /// How many have begun to end.
    begun: AtomicU32,
}

/// What is known of a handle.
#[derive(Copy, Clone)]
pub(super) struct Known {
    pub(super) id: u32,
    pub(super) device: u16,
    /// The primary one of its device, or a green one, whose memory is the primary one's.
    pub(super) primary: bool,
    /// The driver is about to destroy it, or has.
    going: bool,
    /// Known and counted since it was found current; whoever makes it has not said so yet, if anybody sees it made.
    met: bool,
    /// `cuCtxAttach` less `cuCtxDetach`.
    attached: u32,
}

/// This process's contexts on one device.
#[derive(Default)]
pub(crate) struct DeviceContexts {
    /// How many there are, those in the making included.
    pub(super) count: u32,
    /// Whether the primary one is among them.
    pub(super) primary: bool,
    /// Its number, by whatever handle it is met; 0 while it has none.
    primary_id: u32,
    /// Calls under way that may end the primary one.
    leaving: u32,
    /// What they are charged, if they are.
    pub(super) charged: Option<u64>,
}

impl DeviceContexts {
    /// Counts one more if there are any.
    pub(super) fn join(&mut self) -> bool {
        if self.charged.is_some() {
            self.count += 1;
        }
        self.charged.is_some()
    }

    /// Counts one less, and gives the charge back with the last.
    pub(super) fn end(&mut self, device: &Device) {
        self.count = self.count.saturating_sub(1);
        if self.count == 0
            && let Some(charged) = self.charged.take()
        {
            device.refund(charged);
        }
    }

    /// The primary one is there now; what this call counted stays only if it was not before.
    pub(super) fn primary_is_there(&mut self, device: &Device) {
        if core::mem::replace(&mut self.primary, true) {
            self.end(device);
        }
    }

    pub(super) fn primary_id(&self) -> u32 {
        self.primary_id
    }

    /// Whether no call is under way that may end the primary one.
    pub(super) fn primary_stays(&self) -> bool {
        self.leaving == 0
    }

    /// The primary one is gone. Its number, if it had one.
    pub(super) fn primary_has_ended(&mut self) -> Option<u32> {
        self.primary = false;
        Some(core::mem::take(&mut self.primary_id)).filter(|id| *id != 0)
    }
}

impl Contexts {
    pub(crate) const fn new() -> Self {
        Self {
            known: Table::new(),
            greens: Table::new(),
            recent: Recent::new(),
            next: AtomicU32::new(0),
            ends: AtomicU32::new(0),
            begun: AtomicU32::new(0),
        }
    }

    /// A context that was current lately.
    #[inline]
    pub(super) fn recent(&self, handle: CUcontext) -> Option<Known> {
        self.recent.get(key(handle)).map(Known::unpack)
    }

    /// Finds a context, and keeps it at hand. Kept under the table's lock, so that what is being taken is not kept.
    #[cold]
    pub(super) fn find(&self, handle: CUcontext) -> Option<Known> {
        let key = key(handle);
        self.known.with(key, |known| {
            self.recent.put(key, known.pack());
            *known
        })
    }

    /// Forgets a handle that is about to end.
    pub(super) fn take(&self, handle: CUcontext) -> Option<Known> {
        let known = self.known.remove(key(handle));
        self.recent.forget(key(handle));
        known
    }

    /// The driver is about to destroy a context: from now on its memory may be somebody else's.
    pub(super) fn goes(&self, handle: CUcontext, id: u32) {
        self.set_going(handle, id, true);
        self.begun.fetch_add(1, Ordering::AcqRel);
    }

    /// It has not been destroyed.
    pub(super) fn stays_after_all(&self, handle: CUcontext, id: u32) {
        self.set_going(handle, id, false);
    }

    fn set_going(&self, handle: CUcontext, id: u32, going: bool) {
        self.known.with(key(handle), |known| {
            if known.id == id {
                known.going = going;
            }
        });
    }

    /// A call begins that may end a device's primary context; `drop` says that its memory has been given back if so.
    pub(super) fn primary_may_go<'a>(&self, device: &'a Device) -> Leaving<'a> {
        device.contexts.lock().leaving += 1;
        self.begun.fetch_add(1, Ordering::AcqRel);
        Leaving(device)
    }

    /// How many contexts have begun to end, or perhaps.
    pub(crate) fn begun(&self) -> u32 {
        self.begun.load(Ordering::Acquire)
    }

    /// Whether a context that is no primary one lives and is not about to be destroyed.
    #[cold]
    pub(super) fn stays(&self, id: u32) -> bool {
        let mut stays = false;
        self.known.for_each(|_, known| {
            stays |= known.id == id && !known.primary && !known.going;
        });
        stays
    }

    /// Forgets a context that has been destroyed. Its handle may belong to a new one by now.
    pub(super) fn ended(&self, handle: CUcontext, id: u32) {
        self.known.remove_if(key(handle), |known| known.id == id);
        self.recent.forget(key(handle));
        // SYNC POINT with `is_gone`: who still sees the old count has a record that is looked for after this.
        self.ends.fetch_add(1, Ordering::AcqRel);
    }

    /// It has not been destroyed.
    pub(super) fn put_back(&self, handle: CUcontext, known: Known) {
        let _ = self.known.get_or_insert(key(handle), known);
    }

    /// Adds a context that the driver has just made. What is known of its handle is of one that is gone; unless a thread that
    /// had that one current has met it before us, and counted it: then the device on which that was.
    pub(super) fn add(&self, handle: CUcontext, device: &Device) -> Option<u16> {
        let fresh = Known::new(self.number(), device, false);
        let adopt = |known: &mut Known| {
            let met = core::mem::take(&mut known.met).then_some(known.device);
            if met != Some(fresh.device) {
                *known = fresh;
            }
            met
        };
        let known = self.known.get_or_insert(key(handle), fresh);
        let met = match known {
            Ok(known) if known.id != fresh.id => self.known.with(key(handle), adopt),
            _ => Some(None),
        };
        if met.is_none() {
            // Forgotten between the two.
            let _ = self.known.insert(key(handle), fresh);
        }
        self.recent.forget(key(handle));
        met.flatten()
    }

    /// Adds a context that was made unseen, or finds the one of the same handle; and whether it is new.
    pub(super) fn meet(&self, handle: CUcontext, device: &Device) -> (Known, bool) {
        let fresh = Known {
            met: true,
            ..Known::new(self.number(), device, false)
        };
        let known = self.known.get_or_insert(key(handle), fresh);
        let known = known.unwrap_or(fresh);
        (known, known.id == fresh.id)
    }

    /// What was met is not what it was taken for. `false` if it is no longer there as it was met.
    pub(super) fn unmeet(&self, handle: CUcontext, id: u32) -> bool {
        let is_it = |known: &Known| known.id == id && known.met;
        let met = self.known.remove_if(key(handle), is_it);
        self.recent.forget(key(handle));
        met.is_some()
    }

    /// Adds a handle of a device's primary context. One that is known from an earlier life of it, and about to be
    /// forgotten, gets the number of this one.
    pub(super) fn add_primary(&self, handle: CUcontext, device: &Device) {
        let id = {
            let mut contexts = device.contexts.lock();
            if contexts.primary_id == 0 {
                contexts.primary_id = self.number();
            }
            contexts.primary_id
        };
        let fresh = Known::new(id, device, true);
        let known = self.known.get_or_insert(key(handle), fresh);
        if known.is_ok_and(|known| known.id != id) {
            let _ = self.known.insert(key(handle), fresh);
            self.recent.forget(key(handle));
        }
    }

    fn number(&self) -> u32 {
        self.next.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Forgets a primary context by all its handles.
    pub(super) fn forget_all(&self, id: u32) {
        self.ends.fetch_add(1, Ordering::AcqRel);
        self.known.sweep(
            |_, known| known.id == id,
            |handle, _| self.recent.forget(handle),
        );
    }

    /// The number of a device's primary context, if it is known.
    pub(super) fn primary_id(&self, device: &Device) -> Option<u32> {
        Some(device.contexts.lock().primary_id).filter(|id| *id != 0)
    }

    /// How many contexts have ended, or were about to.
    #[inline]
    pub(super) fn ends(&self) -> u32 {
        self.ends.load(Ordering::Acquire)
    }

    #[cold]
    pub(super) fn is_unknown(&self, id: u32) -> bool {
        let mut found = false;
        self.known.for_each(|_, known| found |= known.id == id);
        !found
    }

    /// `cuCtxAttach`: rare and deprecated, so by a walk.
    pub(super) fn attached(&self, id: u32) {
        let mut handle = 0;
        self.known.for_each(|key, known| {
            if known.id == id {
                handle = key;
            }
        });
        self.known.with(handle, |known| known.attached += 1);
    }

    /// Whether it outlives a detach.
    pub(super) fn is_shared(&self, handle: CUcontext) -> bool {
        let attached = self.known.with(key(handle), |known| known.attached);
        attached.is_some_and(|attached| attached > 0)
    }

    pub(super) fn detached(&self, handle: CUcontext) {
        self.known.with(key(handle), |known| {
            known.attached = known.attached.saturating_sub(1);
        });
    }
}

/// A call is under way that may end a device's primary context.
pub(super) struct Leaving<'a>(&'a Device);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.contexts.lock().leaving -= 1;
    }
}

impl Known {
    fn new(id: u32, device: &Device, primary: bool) -> Self {
        Self {
            id,
            device: u16::try_from(device.number).unwrap_or(0),
            primary,
            going: false,
            met: false,
            attached: 0,
        }
    }

    fn pack(self) -> u64 {
        u64::from(self.id) << 32 | u64::from(self.device) << 1 | u64::from(self.primary)
    }

    fn unpack(facts: u64) -> Self {
        Self {
            id: u32::try_from(facts >> 32).unwrap_or(0),
            device: u16::try_from(facts >> 1 & 0xffff).unwrap_or(0),
            primary: facts & 1 != 0,
            going: false,
            met: false,
            attached: 0,
        }
    }
}

pub(super) fn key(handle: CUcontext) -> u64 {
    u64::try_from(handle.0.addr()).unwrap_or(0)
}

pub(super) fn green_key(handle: CUgreenCtx) -> u64 {
    u64::try_from(handle.0.addr()).unwrap_or(0)
}
