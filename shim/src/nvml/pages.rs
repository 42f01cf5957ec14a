//! A list in pages of our own: NVML's lists have no bound, a thread's stack has, and the heap is the application's.

use core::ffi::c_uint;
use core::ops::Deref;
use core::ptr::{NonNull, null_mut};

use cuda_headers::nvml::nvmlReturn_t;
use quota_abi::map;

/// Room for entries that appear between the question for their number and that for all of them.
const MORE: c_uint = 16;

/// Plain records, as many as were written.
pub(super) struct List<R: Copy> {
    pages: NonNull<R>,
    bytes: usize,
    length: usize,
}

impl<R: Copy> List<R> {
    /// An empty list with room for so many; pages that are not written take no memory.
    pub(super) fn with_room(room: usize) -> Option<Self> {
        let bytes = size_of::<R>().checked_mul(room.max(1))?;
        Some(Self {
            pages: map::anonymous(bytes)?.cast(),
            bytes,
            length: 0,
        })
    }

    /// Adds a record; one for which there is no room is left out.
    pub(super) fn push(&mut self, record: R) {
        if self.length < self.bytes / size_of::<R>() {
            // SAFETY: within the mapping, which starts at a page and so is aligned.
            unsafe { self.pages.add(self.length).write(record) };
            self.length += 1;
        }
    }

    /// What NVML lists, asked for in the way of two calls: how many, then all.
    pub(super) fn read(ask: impl Fn(*mut c_uint, *mut R) -> nvmlReturn_t) -> Option<Self> {
        let mut count: c_uint = 0;
        let first = ask(&raw mut count, null_mut());
        let known = matches!(
            first,
            nvmlReturn_t::NVML_SUCCESS | nvmlReturn_t::NVML_ERROR_INSUFFICIENT_SIZE
        );
        if !known || count == 0 {
            return None;
        }
        let mut room = count.saturating_add(MORE);
        let mut list = Self::with_room(room as usize)?;
        if ask(&raw mut room, list.pages.as_ptr()) != nvmlReturn_t::NVML_SUCCESS {
            return None;
        }
        list.length = (room as usize).min(list.bytes / size_of::<R>());
        Some(list)
    }
}

impl<R: Copy> Deref for List<R> {
    type Target = [R];

    fn deref(&self) -> &[R] {
        // SAFETY: `length` records have been written, by `push` or by NVML, into pages that nobody else has.
        unsafe { core::slice::from_raw_parts(self.pages.as_ptr(), self.length) }
    }
}

impl<R: Copy> Drop for List<R> {
    fn drop(&mut self) {
        // SAFETY: the mapping of `with_room`, which nobody uses any more.
        unsafe { map::release(self.pages.cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_room_is_left_out() {
        let mut list = List::with_room(2).unwrap();
        for record in [7_u32, 8, 9] {
            list.push(record);
        }
        assert_eq!(&*list, [7, 8]);
        assert!(List::<u64>::with_room(usize::MAX).is_none());
    }

    #[test]
    fn a_list_is_read_in_two_calls() {
        let list = List::read(|count, records: *mut u32| {
            // SAFETY: the room that `read` gives.
            unsafe {
                let room = count.replace(2);
                if records.is_null() {
                    return nvmlReturn_t::NVML_ERROR_INSUFFICIENT_SIZE;
                }
                assert!(room >= 2);
                records.write(5);
                records.add(1).write(6);
            }
            nvmlReturn_t::NVML_SUCCESS
        });
        assert_eq!(&*list.unwrap(), [5, 6]);
        let failed = List::<u32>::read(|_, _| nvmlReturn_t::NVML_ERROR_NOT_SUPPORTED);
        assert!(failed.is_none());
    }
}
