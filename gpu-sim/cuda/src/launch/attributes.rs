//! Attributes of `cuLaunchKernelEx`.

use std::sync::Arc;

use cuda_headers::driver::{
    CUlaunchAttribute, CUlaunchAttributeID as Id, CUlaunchConfig, CUresult,
};

use crate::event::{Event, resolve_event};
use crate::ops::Grid;

/// What the attributes of a launch ask for, as far as it makes a difference here.
#[derive(Default)]
pub(super) struct Asked {
    pub(super) cooperative: bool,
    /// Recorded behind the launch.
    pub(super) events: Vec<Arc<Event>>,
}

/// # Safety
/// The configuration's attributes are as many as it says.
pub(super) unsafe fn read(config: &CUlaunchConfig) -> Result<Asked, CUresult> {
    let count = config.numAttrs as usize;
    if config.attrs.is_null() && count > 0 {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let mut asked = Asked::default();
    for index in 0..count {
        // SAFETY: by the caller's promise.
        let attribute: &CUlaunchAttribute = unsafe { &*config.attrs.add(index) };
        // SAFETY: each member is read only under the id that it belongs to.
        unsafe { read_one(attribute, config, &mut asked) }?;
    }
    Ok(asked)
}

unsafe fn read_one(
    attribute: &CUlaunchAttribute,
    config: &CUlaunchConfig,
    asked: &mut Asked,
) -> Result<(), CUresult> {
    let value = &attribute.value;
    match Id(attribute.id.0) {
        Id::CU_LAUNCH_ATTRIBUTE_COOPERATIVE => {
            // SAFETY: the member of this id.
            asked.cooperative = unsafe { value.cooperative } != 0;
        }
        Id::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION => {
            // SAFETY: the member of this id.
            let cluster = unsafe { value.clusterDim };
            let pairs = [
                (config.gridDimX, cluster.x),
                (config.gridDimY, cluster.y),
                (config.gridDimZ, cluster.z),
            ];
            if pairs
                .iter()
                .any(|(grid, part)| *part == 0 || grid % part != 0)
            {
                return Err(CUresult::CUDA_ERROR_INVALID_CLUSTER_SIZE);
            }
        }
        Id::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT => {
            // SAFETY: the member of this id.
            let event = unsafe { value.programmaticEvent.event };
            asked.events.push(resolve_event(event)?);
        }
        Id::CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT => {
            // SAFETY: the member of this id.
            let event = unsafe { value.launchCompletionEvent.event };
            asked.events.push(resolve_event(event)?);
        }
        id if id.0 < Id::CU_LAUNCH_ATTRIBUTE_MAX.0 => {}
        _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
    }
    Ok(())
}

/// The shape that a configuration describes.
pub(super) fn grid(config: &CUlaunchConfig) -> Grid {
    Grid {
        grid: [config.gridDimX, config.gridDimY, config.gridDimZ],
        block: [config.blockDimX, config.blockDimY, config.blockDimZ],
        shared: config.sharedMemBytes,
    }
}
