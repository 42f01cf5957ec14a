//! Attributes of streams: kept and given back; none changes how the simulated device behaves.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cuda_headers::driver::{
    CUlaunchAttributeID, CUresult, CUstream, CUstreamAttrID, CUstreamAttrValue,
};

use super::{Stream, resolve};
use crate::entry::{entry, input, out};

#[derive(Default)]
pub(super) struct Attributes(Mutex<HashMap<u32, CUstreamAttrValue>>);

impl Stream {
    fn attributes(&self) -> MutexGuard<'_, HashMap<u32, CUstreamAttrValue>> {
        self.attributes
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Those that a stream can have.
fn check(id: CUstreamAttrID) -> Result<(), CUresult> {
    let known = [
        CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW,
        CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY,
        CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PRIORITY,
        CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP,
        CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN,
    ];
    if known.iter().any(|known| known.0 == id.0) {
        Ok(())
    } else {
        Err(CUresult::CUDA_ERROR_INVALID_VALUE)
    }
}

entry! {
    fn cuStreamGetAttribute(
        hStream: CUstream,
        attr: CUstreamAttrID,
        value: *mut CUstreamAttrValue,
    ) => cuStreamGetAttribute_ptsz {
        let stream = resolve(hStream, PER_THREAD)?;
        check(attr)?;
        let mut kept = stream.attributes().get(&attr.0).copied();
        if kept.is_none() && attr.0 == CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PRIORITY.0 {
            // SAFETY: all zeros are a valid value of this union of integers and addresses.
            let mut priority: CUstreamAttrValue = unsafe { std::mem::zeroed() };
            priority.priority = stream.priority;
            kept = Some(priority);
        }
        // SAFETY: as above.
        out(value, kept.unwrap_or_else(|| unsafe { std::mem::zeroed() }))
    }

    fn cuStreamSetAttribute(
        hStream: CUstream,
        attr: CUstreamAttrID,
        param: *const CUstreamAttrValue,
    ) => cuStreamSetAttribute_ptsz {
        let stream = resolve(hStream, PER_THREAD)?;
        check(attr)?;
        let value = *input(param)?;
        stream.attributes().insert(attr.0, value);
        Ok(())
    }

    fn cuStreamCopyAttributes(dstStream: CUstream, srcStream: CUstream)
    => cuStreamCopyAttributes_ptsz {
        let source = resolve(srcStream, PER_THREAD)?.attributes().clone();
        *resolve(dstStream, PER_THREAD)?.attributes() = source;
        Ok(())
    }
}
