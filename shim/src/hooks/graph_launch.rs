//! Launches of executable graphs: charged like those of kernels, and in memory as far as the driver has none for the graph yet.

use cuda_headers::driver::{CUgraphExec, CUresult, CUstream};
use cuda_headers::fns;

use crate::hook::hooks;
use crate::memory::graph;
use crate::memory::pool::Default::{Legacy, PerThread};
use crate::time;

hooks! { DRIVER as fns, quick if time::limited() || graph::any();
    /// Charged by what earlier launches of the same graph took.
    fn cuGraphLaunch(hGraph: CUgraphExec, hStream: CUstream) -> CUresult = |call|
        graph::launch(hGraph, (hStream, Legacy), call);

    /// As `cuGraphLaunch`.
    fn cuGraphLaunch_ptsz(hGraph: CUgraphExec, hStream: CUstream) -> CUresult = |call|
        graph::launch(hGraph, (hStream, PerThread), call);
}
