//! Captures: while any runs in this process, a launch asks whether its stream is captured. A captured launch is neither
//! charged nor delayed; the graph that comes of it is, when it is launched.

use core::ffi::c_void;

use cuda_headers::driver::{
    CUgraph, CUgraphEdgeData, CUgraphNode, CUgraphRecaptureCallback, CUresult, CUstream,
    CUstreamCaptureMode, CUstreamCigCaptureParams,
};
use cuda_headers::fns;

use crate::hook::hooks;
use crate::time;

hooks! { DRIVER as fns;
    /// What is open on the stream ends before, in the first form of the function as in the others.
    fn cuStreamBeginCapture(hStream: CUstream) -> CUresult = |call| {
        time::interrupt(time::stream(hStream, false));
        Ok(time::capture_began(call()))
    };

    /// As `cuStreamBeginCapture`.
    fn cuStreamBeginCapture_ptsz(hStream: CUstream) -> CUresult = |call| {
        time::interrupt(time::stream(hStream, true));
        Ok(time::capture_began(call()))
    };

    /// As `cuStreamBeginCapture`.
    fn cuStreamBeginCapture_v2(
        hStream: CUstream,
        mode: CUstreamCaptureMode,
    ) -> CUresult = |call| {
        time::interrupt(time::stream(hStream, false));
        Ok(time::capture_began(call()))
    };

    /// As `cuStreamBeginCapture`.
    fn cuStreamBeginCapture_v2_ptsz(
        hStream: CUstream,
        mode: CUstreamCaptureMode,
    ) -> CUresult = |call| {
        time::interrupt(time::stream(hStream, true));
        Ok(time::capture_began(call()))
    };

    /// As `cuStreamBeginCapture`.
    fn cuStreamBeginCaptureToGraph(
        hStream: CUstream,
        hGraph: CUgraph,
        dependencies: *const CUgraphNode,
        dependencyData: *const CUgraphEdgeData,
        numDependencies: usize,
        mode: CUstreamCaptureMode,
    ) -> CUresult = |call| {
        time::interrupt(time::stream(hStream, false));
        Ok(time::capture_began(call()))
    };

    /// As `cuStreamBeginCapture`.
    fn cuStreamBeginCaptureToGraph_ptsz(
        hStream: CUstream,
        hGraph: CUgraph,
        dependencies: *const CUgraphNode,
        dependencyData: *const CUgraphEdgeData,
        numDependencies: usize,
        mode: CUstreamCaptureMode,
    ) -> CUresult = |call| {
        time::interrupt(time::stream(hStream, true));
        Ok(time::capture_began(call()))
    };

    /// As `cuStreamBeginCapture`.
    fn cuStreamBeginCaptureToCig(
        hStream: CUstream,
        streamCigCaptureParams: *mut CUstreamCigCaptureParams,
    ) -> CUresult = |call| {
        time::interrupt(time::stream(hStream, false));
        Ok(time::capture_began(call()))
    };

    /// As `cuStreamBeginCapture`.
    fn cuStreamBeginCaptureToCig_ptsz(
        hStream: CUstream,
        streamCigCaptureParams: *mut CUstreamCigCaptureParams,
    ) -> CUresult = |call| {
        time::interrupt(time::stream(hStream, true));
        Ok(time::capture_began(call()))
    };

    /// As `cuStreamBeginCapture`.
    fn cuStreamBeginRecaptureToGraph(
        hStream: CUstream,
        mode: CUstreamCaptureMode,
        hGraph: CUgraph,
        callbackFunc: CUgraphRecaptureCallback,
        userData: *mut c_void,
    ) -> CUresult = |call| {
        time::interrupt(time::stream(hStream, false));
        Ok(time::capture_began(call()))
    };

    /// As `cuStreamBeginCapture`.
    fn cuStreamBeginRecaptureToGraph_ptsz(
        hStream: CUstream,
        mode: CUstreamCaptureMode,
        hGraph: CUgraph,
        callbackFunc: CUgraphRecaptureCallback,
        userData: *mut c_void,
    ) -> CUresult = |call| {
        time::interrupt(time::stream(hStream, true));
        Ok(time::capture_began(call()))
    };

    /// The driver ends the capture even where it has no graph to show for it.
    fn cuStreamEndCapture(
        hStream: CUstream,
        phGraph: *mut CUgraph,
    ) -> CUresult = |call| Ok(time::capture_ended(call()));

    /// As `cuStreamEndCapture`.
    fn cuStreamEndCapture_ptsz(
        hStream: CUstream,
        phGraph: *mut CUgraph,
    ) -> CUresult = |call| Ok(time::capture_ended(call()));

    /// As `cuStreamEndCapture`.
    fn cuStreamEndCaptureToCig(
        hStream: CUstream,
    ) -> CUresult = |call| Ok(time::capture_ended(call()));

    /// As `cuStreamEndCapture`.
    fn cuStreamEndCaptureToCig_ptsz(
        hStream: CUstream,
    ) -> CUresult = |call| Ok(time::capture_ended(call()));
}
