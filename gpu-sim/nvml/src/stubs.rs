//! Exported names that nothing here implements.

use crate::entry;

macro_rules! stubs {
    ($($name:ident)*) => { $(
        #[unsafe(no_mangle)]
        extern "C" fn $name() -> cuda_headers::nvml::nvmlReturn_t {
            entry::stub(stringify!($name))
        }
    )* };
}

include!(concat!(env!("OUT_DIR"), "/stubs.rs"));
