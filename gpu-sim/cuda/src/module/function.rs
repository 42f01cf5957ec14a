//! What is known of one kernel: all that a launch, an attribute query or an occupancy question needs.

use std::fmt;

/// One kernel parameter: where it lies in the parameter buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Param {
    /// Offset in the buffer that `CU_LAUNCH_PARAM_BUFFER_POINTER` passes.
    pub(crate) offset: usize,
    /// Bytes that `cuLaunchKernel` copies from the caller's pointer.
    pub(crate) size: usize,
}

/// The kernels that the simulator carries out; every other kernel only takes time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Builtin {
    /// `sim_work(u64 iterations)`: lasts that many nanoseconds.
    Work,
    /// `sim_wait_word(u64 address, u32 value)`: lasts until the word has the value.
    WaitWord,
    /// `sim_store_word(u64 address, u32 value)`.
    StoreWord,
    /// `sim_fill_u32(u64 dst, u64 count, u32 value)`.
    FillU32,
    /// `sim_add_f32(u64 a, u64 b, u64 out, u64 count)`.
    AddF32,
    /// `sim_copy_u8(u64 dst, u64 src, u64 count)`.
    CopyU8,
    /// `sim_forever()`: never ends.
    Forever,
}

impl Builtin {
    /// Recognises a built-in by entry name **and** parameter sizes, so that an image which
    /// declares `sim_work` with other parameters is never misread.
    pub(crate) fn recognise(name: &str, params: &[Param]) -> Option<Self> {
        let (builtin, sizes): (Self, &[usize]) = match name {
            "sim_work" => (Self::Work, &[8]),
            "sim_wait_word" => (Self::WaitWord, &[8, 4]),
            "sim_store_word" => (Self::StoreWord, &[8, 4]),
            "sim_fill_u32" => (Self::FillU32, &[8, 8, 4]),
            "sim_add_f32" => (Self::AddF32, &[8, 8, 8, 8]),
            "sim_copy_u8" => (Self::CopyU8, &[8, 8, 8]),
            "sim_forever" => (Self::Forever, &[]),
            _ => return None,
        };
        params
            .iter()
            .map(|p| p.size)
            .eq(sizes.iter().copied())
            .then_some(builtin)
    }
}

/// One kernel of a loaded image.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Function {
    /// The entry's (mangled) name.
    pub(crate) name: String,
    /// Its parameters in order.
    pub(crate) params: Vec<Param>,
    /// `.maxntid`, or what the device allows.
    pub(crate) max_threads: u32,
    /// `.reqntid`, when the kernel insists on one block shape.
    pub(crate) required_block: Option<[u32; 3]>,
    /// Statically declared shared memory, bytes.
    pub(crate) static_shared: u32,
    /// Local memory per thread, bytes.
    pub(crate) local: u32,
    /// Registers per thread (an assumption where the image does not tell).
    pub(crate) registers: u32,
    /// PTX version x 10, as the attribute gives it (e.g. 70); the binary's where there is none.
    pub(crate) ptx_version: u32,
    /// Compute capability x 10 (e.g. 90).
    pub(crate) binary_version: u32,
    /// Carried out by the simulator, rather than only timed.
    pub(crate) builtin: Option<Builtin>,
}

impl Function {
    /// Size of the parameter buffer.
    pub(crate) fn param_bytes(&self) -> usize {
        self.params
            .iter()
            .map(|p| p.offset + p.size)
            .max()
            .unwrap_or(0)
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}({} params, {} B)",
            self.name,
            self.params.len(),
            self.param_bytes()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_builtin_needs_its_parameters() {
        let word = Param { offset: 0, size: 8 };
        assert_eq!(Builtin::recognise("sim_work", &[word]), Some(Builtin::Work));
        assert_eq!(Builtin::recognise("sim_work", &[]), None);
        assert_eq!(
            Builtin::recognise("sim_work", &[Param { offset: 0, size: 4 }]),
            None
        );
        assert_eq!(Builtin::recognise("my_work", &[word]), None);
    }
}
