use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};

use cuda_headers::driver::{
    CUDA_HOST_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS, CUDA_MEM_ALLOC_NODE_PARAMS,
    CUDA_MEMSET_NODE_PARAMS, CUdeviceptr, CUgraph, CUgraphExec, CUgraphExecUpdateResultInfo,
    CUgraphNode, CUmemAllocationType, CUmemLocationType, CUresult,
};

use super::work::*;
use super::{BLOCK, Gpu, INVALID, MIB, cu, ok};

fn create() -> CUgraph {
    let mut graph = CUgraph::NULL;
    ok!(cuGraphCreate(&raw mut graph, 0));
    graph
}

fn instantiate(graph: CUgraph) -> CUgraphExec {
    let mut exec = CUgraphExec::NULL;
    ok!(cuGraphInstantiateWithFlags(&raw mut exec, graph, 0));
    exec
}

fn count(graph: CUgraph) -> (usize, usize) {
    let (mut nodes, mut edges) = (0, 0);
    let none = std::ptr::null_mut();
    ok!(cuGraphGetNodes(graph, none, &raw mut nodes));
    ok!(cuGraphGetEdges(graph, none, none, &raw mut edges));
    (nodes, edges)
}

fn fill_node(graph: CUgraph, after: &[CUgraphNode], to: CUdeviceptr, value: u32) -> CUgraphNode {
    let params = CUDA_MEMSET_NODE_PARAMS {
        dst: to,
        pitch: 0,
        value,
        elementSize: 4,
        width: 1,
        height: 1,
    };
    let mut node = CUgraphNode::NULL;
    let (first, number) = (after.as_ptr(), after.len());
    let current = cuda_headers::driver::CUcontext::NULL;
    ok!(cuGraphAddMemsetNode(
        &raw mut node,
        graph,
        first,
        number,
        &raw const params,
        current
    ));
    node
}

fn read(address: CUdeviceptr) -> u32 {
    let mut value = 0_u32;
    ok!(cuMemcpyDtoH_v2((&raw mut value).cast(), address, 4));
    value
}

#[test]
fn branches_run_side_by_side() {
    let _gpu = Gpu::new();
    let kernels = Kernels::load();
    let (a, b) = (stream(NON_BLOCKING), stream(NON_BLOCKING));
    let graph = capture(a, || {
        kernels.work(a, 10 * MS);
        let forked = record(a);
        ok!(cuStreamWaitEvent(b, forked, 0));
        kernels.work(b, 30 * MS);
        kernels.work(a, 20 * MS);
        let joined = record(b);
        ok!(cuStreamWaitEvent(a, joined, 0));
        kernels.work(a, 5 * MS);
    });
    assert_eq!(count(graph), (4, 4));
    let exec = instantiate(graph);
    let start = record(a);
    ok!(cuGraphLaunch(exec, a));
    let ms = between(start, record(a));
    // 10 + max(20, 30) + 5; the start may lie before the launch, never after it.
    assert!((45.0..1000.0).contains(&ms), "{ms}");
    let busy = crate::state::member().unwrap().busy_ns(0);
    ok!(cuGraphLaunch(exec, a));
    ok!(cuStreamSynchronize(a));
    assert_eq!(crate::state::member().unwrap().busy_ns(0) - busy, 45 * MS);
}

unsafe extern "C" fn add_one(data: *mut c_void) {
    // SAFETY: the test passes the address of a counter that outlives the graph's work.
    unsafe { &*data.cast::<AtomicU32>() }.fetch_add(1, Ordering::SeqCst);
}

#[test]
fn nodes_of_every_kind_run_in_order() {
    let _gpu = Gpu::new();
    let (graph, memory, stream) = (create(), word(), stream(NON_BLOCKING));
    let counter = AtomicU32::new(0);
    let first = fill_node(graph, &[], memory, 5);
    let params = CUDA_HOST_NODE_PARAMS {
        fn_: Some(add_one),
        userData: (&raw const counter).cast_mut().cast(),
    };
    let mut host = CUgraphNode::NULL;
    let target = &raw mut host;
    ok!(cuGraphAddHostNode(
        target,
        graph,
        &raw const first,
        1,
        &raw const params
    ));
    fill_node(graph, &[host], memory, 6);
    let exec = instantiate(graph);
    for round in 1..=3 {
        ok!(cuGraphLaunch(exec, stream));
        ok!(cuStreamSynchronize(stream));
        assert_eq!((counter.load(Ordering::SeqCst), read(memory)), (round, 6));
    }
}

#[test]
fn memory_nodes_hold_memory_from_launch_to_trim() {
    let gpu = Gpu::new();
    let (graph, stream) = (create(), stream(NON_BLOCKING));
    // SAFETY: integers and addresses, for which zero is valid.
    let mut params: CUDA_MEM_ALLOC_NODE_PARAMS = unsafe { std::mem::zeroed() };
    params.poolProps.allocType = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    params.poolProps.location.type_ = CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    params.bytesize = 5 * MIB;
    let (none, mut allocated) = (std::ptr::null(), CUgraphNode::NULL);
    let target = &raw mut allocated;
    ok!(cuGraphAddMemAllocNode(
        target,
        graph,
        none,
        0,
        &raw mut params
    ));
    let fill = fill_node(graph, &[allocated], params.dptr, 1);
    let mut freed = CUgraphNode::NULL;
    let target = &raw mut freed;
    ok!(cuGraphAddMemFreeNode(
        target,
        graph,
        &raw const fill,
        1,
        params.dptr
    ));
    let target = &raw mut freed;
    let twice = cu!(cuGraphAddMemFreeNode(
        target,
        graph,
        &raw const fill,
        1,
        params.dptr
    ));
    assert_eq!(twice, INVALID);
    let unsupported = CUresult::CUDA_ERROR_NOT_SUPPORTED;
    assert_eq!(cu!(cuGraphDestroyNode(fill)), unsupported);
    let exec = instantiate(graph);
    let before = gpu.usage(0).0;
    ok!(cuGraphLaunch(exec, stream));
    assert_eq!(gpu.usage(0).0, before + 3 * BLOCK);
    ok!(cuGraphLaunch(exec, stream));
    ok!(cuStreamSynchronize(stream));
    assert_eq!(gpu.usage(0).0, before + 3 * BLOCK);
    ok!(cuDeviceGraphMemTrim(0));
    assert_eq!(gpu.usage(0).0, before);
    let mut copy = CUgraph::NULL;
    assert_eq!(cu!(cuGraphClone(&raw mut copy, graph)), unsupported);
}

#[test]
fn an_executable_graph_can_be_changed() {
    let _gpu = Gpu::new();
    let kernels = Kernels::load();
    let stream = stream(NON_BLOCKING);
    let graph = capture(stream, || kernels.work(stream, MS));
    let exec = instantiate(graph);
    let (mut node, mut one) = (CUgraphNode::NULL, 1);
    ok!(cuGraphGetRootNodes(graph, &raw mut node, &raw mut one));
    // SAFETY: integers and addresses, for which zero is valid.
    let mut params: CUDA_KERNEL_NODE_PARAMS = unsafe { std::mem::zeroed() };
    ok!(cuGraphKernelNodeGetParams_v2(node, &raw mut params));
    assert_eq!(params.func, kernels.get(c"sim_work"));
    // SAFETY: the only parameter of this kernel is a 64-bit word.
    let ns = unsafe { (*params.kernelParams).cast::<u64>().read_unaligned() };
    assert_eq!(ns, MS);
    let mut longer = 7 * MS;
    let mut list: [*mut c_void; 1] = [(&raw mut longer).cast()];
    params.kernelParams = list.as_mut_ptr();
    ok!(cuGraphExecKernelNodeSetParams_v2(
        exec,
        node,
        &raw const params
    ));
    let busy = |run: &dyn Fn()| {
        let before = crate::state::member().unwrap().busy_ns(0);
        run();
        ok!(cuStreamSynchronize(stream));
        crate::state::member().unwrap().busy_ns(0) - before
    };
    assert_eq!(busy(&|| ok!(cuGraphLaunch(exec, stream))), 7 * MS);
    ok!(cuGraphNodeSetEnabled(exec, node, 0));
    assert_eq!(busy(&|| ok!(cuGraphLaunch(exec, stream))), 0);
    ok!(cuGraphNodeSetEnabled(exec, node, 1));

    let other = capture(stream, || kernels.work(stream, 2 * MS));
    // SAFETY: integers and addresses, for which zero is valid.
    let mut info: CUgraphExecUpdateResultInfo = unsafe { std::mem::zeroed() };
    ok!(cuGraphExecUpdate_v2(exec, other, &raw mut info));
    assert_eq!(busy(&|| ok!(cuGraphLaunch(exec, stream))), 2 * MS);
    let two = capture(stream, || {
        kernels.work(stream, 1);
        kernels.work(stream, 1);
    });
    let failed = CUresult::CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    assert_eq!(cu!(cuGraphExecUpdate_v2(exec, two, &raw mut info)), failed);
}

#[test]
fn graphs_are_copied_and_taken_apart() {
    let _gpu = Gpu::new();
    let (graph, memory) = (create(), word());
    let first = fill_node(graph, &[], memory, 1);
    let second = fill_node(graph, &[first], memory, 2);
    let mut copy = CUgraph::NULL;
    ok!(cuGraphClone(&raw mut copy, graph));
    let mut twin = CUgraphNode::NULL;
    ok!(cuGraphNodeFindInClone(&raw mut twin, second, copy));
    assert_ne!(twin, second);
    ok!(cuGraphDestroyNode(first));
    assert_eq!((count(graph), count(copy)), ((1, 0), (2, 1)));
    ok!(cuGraphDestroy(graph));
    assert_eq!(cu!(cuGraphDestroy(graph)), INVALID);
    let mut kind = cuda_headers::driver::CUgraphNodeType(0);
    assert_eq!(cu!(cuGraphNodeGetType(second, &raw mut kind)), INVALID);
    ok!(cuGraphNodeGetType(twin, &raw mut kind));
    // Nodes cannot wait for each other in a circle.
    let mut root = CUgraphNode::NULL;
    let mut one = 1;
    ok!(cuGraphGetRootNodes(copy, &raw mut root, &raw mut one));
    ok!(cuGraphAddDependencies(
        copy,
        &raw const twin,
        &raw const root,
        1
    ));
    let mut exec = CUgraphExec::NULL;
    assert_eq!(
        cu!(cuGraphInstantiateWithFlags(&raw mut exec, copy, 0)),
        INVALID
    );
}

#[test]
fn a_launch_in_a_capture_becomes_a_child_graph() {
    let _gpu = Gpu::new();
    let kernels = Kernels::load();
    let stream = stream(NON_BLOCKING);
    let inner = instantiate(capture(stream, || kernels.work(stream, MS)));
    let outer = capture(stream, || {
        ok!(cuGraphLaunch(inner, stream));
        kernels.work(stream, MS);
    });
    assert_eq!(count(outer), (2, 1));
    let before = crate::state::member().unwrap().busy_ns(0);
    ok!(cuGraphLaunch(instantiate(outer), stream));
    ok!(cuStreamSynchronize(stream));
    assert_eq!(crate::state::member().unwrap().busy_ns(0) - before, 2 * MS);
}

#[test]
fn memory_that_a_graph_leaves_must_be_freed_before_the_next_launch() {
    let gpu = Gpu::new();
    let (graph, stream) = (create(), stream(NON_BLOCKING));
    let (none, mut node) = (std::ptr::null(), CUgraphNode::NULL);
    // SAFETY: integers and addresses, for which zero is valid.
    let mut params: CUDA_MEM_ALLOC_NODE_PARAMS = unsafe { std::mem::zeroed() };
    params.poolProps.allocType = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    params.poolProps.location.type_ = CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    params.bytesize = MIB;
    ok!(cuGraphAddMemAllocNode(
        &raw mut node,
        graph,
        none,
        0,
        &raw mut params
    ));
    let exec = instantiate(graph);
    let before = gpu.usage(0).0;
    ok!(cuGraphUpload(exec, stream));
    ok!(cuGraphLaunch(exec, stream));
    assert_eq!(gpu.usage(0).0, before + BLOCK);
    assert_eq!(cu!(cuGraphLaunch(exec, stream)), INVALID);
    ok!(cuMemFreeAsync(params.dptr, stream));
    ok!(cuStreamSynchronize(stream));
    ok!(cuGraphLaunch(exec, stream));
    let mut auto = CUgraphExec::NULL;
    let again = cu!(cuGraphInstantiateWithFlags(&raw mut auto, graph, 1));
    assert_eq!(again, CUresult::CUDA_ERROR_NOT_SUPPORTED);
    ok!(cuMemFreeAsync(params.dptr, stream));
    ok!(cuStreamSynchronize(stream));
    ok!(cuGraphExecDestroy(exec));
    ok!(cuGraphInstantiateWithFlags(&raw mut auto, graph, 1));
    ok!(cuGraphLaunch(auto, stream));
    ok!(cuGraphLaunch(auto, stream));
    ok!(cuMemFreeAsync(params.dptr, stream));
    ok!(cuStreamSynchronize(stream));
    ok!(cuDeviceGraphMemTrim(0));
    assert_eq!(gpu.usage(0).0, before);
}

/// A graph that allocates so much and frees it again.
fn frees_itself(bytes: usize) -> CUgraph {
    let graph = create();
    let (none, mut node) = (std::ptr::null(), CUgraphNode::NULL);
    // SAFETY: integers and addresses, for which zero is valid.
    let mut params: CUDA_MEM_ALLOC_NODE_PARAMS = unsafe { std::mem::zeroed() };
    params.poolProps.allocType = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    params.poolProps.location.type_ = CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    params.bytesize = bytes;
    let target = &raw mut node;
    ok!(cuGraphAddMemAllocNode(
        target,
        graph,
        none,
        0,
        &raw mut params
    ));
    let mut freed = CUgraphNode::NULL;
    let target = &raw mut freed;
    ok!(cuGraphAddMemFreeNode(
        target,
        graph,
        &raw const node,
        1,
        params.dptr
    ));
    graph
}

#[test]
fn graphs_share_what_the_device_keeps_for_them() {
    let gpu = Gpu::new();
    let stream = stream(NON_BLOCKING);
    let before = gpu.usage(0).0;
    let graphs = [5 * MIB, 3 * MIB].map(frees_itself);
    let execs = graphs.map(instantiate);
    assert_eq!(gpu.usage(0).0, before, "a node is an address");
    ok!(cuGraphUpload(execs[1], stream));
    assert_eq!(gpu.usage(0).0, before + 2 * BLOCK);
    ok!(cuDeviceGraphMemTrim(0));
    assert_eq!(
        gpu.usage(0).0,
        before,
        "what is uploaded is not about to run"
    );
    for exec in [execs[0], execs[1], execs[0]] {
        ok!(cuGraphLaunch(exec, stream));
        ok!(cuStreamSynchronize(stream));
        assert_eq!(gpu.usage(0).0, before + 3 * BLOCK);
    }
    for exec in execs {
        ok!(cuGraphExecDestroy(exec));
    }
    for graph in graphs {
        ok!(cuGraphDestroy(graph));
    }
    assert_eq!(gpu.usage(0).0, before + 3 * BLOCK, "kept for other graphs");
    ok!(cuDeviceGraphMemTrim(0));
    assert_eq!(gpu.usage(0).0, before);
}
