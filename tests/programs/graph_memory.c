// Memory nodes of graphs, under a limit of 256 MiB: after every step the charge is what the device holds.
// link: -ldl
#include "ledger.h"

typedef struct {
    CUmemPoolProps poolProps;
    const CUmemAccessDesc *accessDescs;
    size_t accessDescCount;
    size_t bytesize;
    CUdeviceptr dptr;
} AllocNode;
typedef struct {
    int type;
    int reserved0[3];
    union {
        long long reserved1[29];
        AllocNode alloc;
    };
    long long reserved2;
} NodeParams;
typedef struct {
    unsigned long long flags;
    CUstream hUploadStream;
    CUgraphNode hErrNode_out;
    int result_out;
} InstantiateParams;
enum { MEM_ALLOC = 10, UPLOAD = 2, AUTO_FREE = 1 };

CUresult cuGraphAddMemAllocNode(CUgraphNode *, CUgraph, const CUgraphNode *, size_t, AllocNode *);
CUresult cuGraphAddMemFreeNode(CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUdeviceptr);
CUresult cuGraphAddNode(CUgraphNode *, CUgraph, const CUgraphNode *, size_t, NodeParams *);
CUresult cuGraphAddNode_v2(CUgraphNode *, CUgraph, const CUgraphNode *, const void *, size_t, NodeParams *);
CUresult cuGraphAddNode_v3(CUgraphNode *, CUgraph, const CUgraphNode *, const void *, size_t, NodeParams *);
CUresult cuGraphInstantiateWithParams(CUgraphExec *, CUgraph, InstantiateParams *);
CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *, CUgraph, InstantiateParams *);

static CUstream stream;

static AllocNode described(size_t bytes) {
    return (AllocNode){
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}},
        .bytesize = bytes,
    };
}

// Adds a node that allocates, in one of the ways there are, and where `freed` one that frees it again.
static CUdeviceptr add(CUgraph graph, int way, size_t bytes, int freed) {
    CUgraphNode node;
    CUdeviceptr pointer;
    NodeParams params = {.type = MEM_ALLOC, .alloc = described(bytes)};
    switch (way % 4) {
    case 0:
        OK(CU(cuGraphAddMemAllocNode)(&node, graph, NULL, 0, &params.alloc));
        break;
    case 1:
        OK(CU(cuGraphAddNode)(&node, graph, NULL, 0, &params));
        break;
    case 2:
        OK(CU(cuGraphAddNode_v2)(&node, graph, NULL, NULL, 0, &params));
        break;
    default:
        OK(CU(cuGraphAddNode_v3)(&node, graph, NULL, NULL, 0, &params));
    }
    pointer = params.alloc.dptr;
    if (freed) OK(CU(cuGraphAddMemFreeNode)(&node, graph, &node, 1, pointer));
    return pointer;
}

static CUresult instantiate(CUgraphExec *exec, CUgraph graph, int way) {
    InstantiateParams params = {0};
    switch (way % 5) {
    case 0:
        return CU(cuGraphInstantiate)(exec, graph, NULL, NULL, 0);
    case 1:
        return CU(cuGraphInstantiate_v2)(exec, graph, NULL, NULL, 0);
    case 2:
        return CU(cuGraphInstantiateWithFlags)(exec, graph, 0);
    case 3:
        return CU(cuGraphInstantiateWithParams)(exec, graph, &params);
    default:
        return CU(cuGraphInstantiateWithParams_ptsz)(exec, graph, &params);
    }
}

static CUgraph frees_itself(size_t mib) {
    CUgraph graph;
    OK(CU(cuGraphCreate)(&graph, 0));
    add(graph, 0, mib * MIB, 1);
    return graph;
}

static CUgraphExec ready(CUgraph graph) {
    CUgraphExec exec;
    OK(CU(cuGraphInstantiateWithFlags)(&exec, graph, 0));
    return exec;
}

static CUresult launch(CUgraphExec exec, int way) {
    CUresult answer = way % 2 ? CU(cuGraphLaunch_ptsz)(exec, stream) : CU(cuGraphLaunch)(exec, stream);
    OK(CU(cuStreamSynchronize)(stream));
    return answer;
}

// Every way to make the node, to make the graph executable, and to launch it.
static void every_way(void) {
    for (int way = 0; way < 20; way++) {
        CUgraph graph;
        CUgraphExec exec;
        OK(CU(cuGraphCreate)(&graph, 0));
        add(graph, way, 60 * MIB, 1);
        OK(instantiate(&exec, graph, way));
        HOLDS(0);
        OK(launch(exec, way));
        HOLDS(60);
        OK(launch(exec, way));
        HOLDS(60);
        OK(CU(cuGraphExecDestroy)(exec));
        OK(CU(cuGraphDestroy)(graph));
        HOLDS(60);
        OK(CU(cuDeviceGraphMemTrim)(0));
        HOLDS(0);
    }
}

static void refusals(void) {
    CUgraph graph = frees_itself(300);
    CUgraphExec exec = ready(graph), other = NULL;
    InstantiateParams uploads = {.flags = UPLOAD, .hUploadStream = stream};
    REFUSED(cuGraphLaunch, CU(cuGraphLaunch)(exec, stream));
    REFUSED(cuGraphLaunch_ptsz, CU(cuGraphLaunch_ptsz)(exec, stream));
    REFUSED(cuGraphUpload, CU(cuGraphUpload)(exec, stream));
    REFUSED(cuGraphUpload_ptsz, CU(cuGraphUpload_ptsz)(exec, stream));
    OK(CU(cuGraphExecDestroy)(exec));
    REFUSED(cuGraphInstantiateWithParams, CU(cuGraphInstantiateWithParams)(&other, graph, &uploads));
    REFUSED(cuGraphInstantiateWithParams_ptsz, CU(cuGraphInstantiateWithParams_ptsz)(&other, graph, &uploads));
    HOLDS(0);
    OK(CU(cuGraphDestroy)(graph));

    // Beside other memory of the group.
    CUdeviceptr pointer;
    graph = frees_itself(200);
    exec = ready(graph);
    OK(CU(cuMemAlloc_v2)(&pointer, 100 * MIB));
    REFUSED(cuGraphLaunch, CU(cuGraphLaunch)(exec, stream));
    HOLDS(100);
    OK(CU(cuMemFree_v2)(pointer));
    OK(launch(exec, 0));
    HOLDS(200);
    OK(CU(cuDeviceGraphMemTrim)(0));
    HOLDS(0);
}

static void uploads(void) {
    CUgraph graph = frees_itself(60);
    CUgraphExec exec = ready(graph);
    OK(CU(cuGraphUpload)(exec, stream));
    HOLDS(60);
    OK(CU(cuGraphUpload_ptsz)(exec, stream));
    HOLDS(60);
    OK(launch(exec, 0));
    HOLDS(60);
    OK(CU(cuDeviceGraphMemTrim)(0));
    HOLDS(0);
    OK(launch(exec, 1));
    HOLDS(60);
    OK(CU(cuDeviceGraphMemTrim)(0));
    OK(CU(cuGraphExecDestroy)(exec));

    InstantiateParams params = {.flags = UPLOAD, .hUploadStream = stream};
    OK(CU(cuGraphInstantiateWithParams)(&exec, graph, &params));
    HOLDS(60);
    OK(CU(cuDeviceGraphMemTrim)(0));
    HOLDS(0);
}

// During a capture nothing is taken; what was captured is a node like others.
static void captured(void) {
    CUdeviceptr pointer, not_charged;
    CUgraph graph;
    OK(CU(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(CU(cuMemAllocAsync)(&not_charged, 4 * GIB, stream));
    OK(CU(cuStreamEndCapture)(stream, &graph));
    HOLDS(0);
    OK(CU(cuGraphDestroy)(graph));

    OK(CU(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(CU(cuMemAllocAsync)(&pointer, 40 * MIB, stream));
    OK(CU(cuMemFreeAsync)(pointer, stream));
    OK(CU(cuStreamEndCapture)(stream, &graph));
    CUgraphExec exec = ready(graph);
    HOLDS(0);
    OK(launch(exec, 0));
    HOLDS(40);
    OK(CU(cuDeviceGraphMemTrim)(0));
    HOLDS(0);
}

// What the device keeps for graphs serves whichever runs.
static void shared(void) {
    CUgraphExec execs[] = {ready(frees_itself(200)), ready(frees_itself(150)), ready(frees_itself(100))};
    for (int round = 0; round < 6; round++) {
        OK(launch(execs[round % 3], round));
        HOLDS(200);
    }
    // Under way at the same time they cannot share, and together they do not fit.
    OK(CU(cuDeviceGraphMemTrim)(0));
    HOLDS(0);
}

// Memory that a graph leaves is the program's until it is freed.
static void left_behind(void) {
    CUgraph graph;
    CUgraphExec exec;
    OK(CU(cuGraphCreate)(&graph, 0));
    CUdeviceptr pointer = add(graph, 0, 100 * MIB, 0);
    OK(CU(cuGraphInstantiateWithFlags)(&exec, graph, 0));
    OK(launch(exec, 0));
    HOLDS(100);
    IS(CUDA_ERROR_INVALID_VALUE, launch(exec, 0));
    HOLDS(100);
    OK(CU(cuDeviceGraphMemTrim)(0));
    HOLDS(100);
    OK(CU(cuMemFree_v2)(pointer));
    OK(launch(exec, 1));
    HOLDS(100);
    OK(CU(cuGraphExecDestroy)(exec));
    HOLDS(100);
    OK(CU(cuMemFreeAsync)(pointer, stream));
    OK(CU(cuStreamSynchronize)(stream));
    HOLDS(100);
    OK(CU(cuDeviceGraphMemTrim)(0));
    HOLDS(0);

    OK(CU(cuGraphInstantiateWithFlags)(&exec, graph, AUTO_FREE));
    for (int round = 0; round < 4; round++) {
        OK(launch(exec, round));
        HOLDS(100);
    }
    OK(CU(cuGraphExecDestroy)(exec));
    OK(CU(cuGraphDestroy)(graph));
    HOLDS(100);
    OK(CU(cuDeviceGraphMemTrim)(0));
    HOLDS(100);
    OK(CU(cuMemFreeAsync_ptsz)(pointer, stream));
    OK(CU(cuStreamSynchronize)(stream));
    OK(CU(cuDeviceGraphMemTrim)(0));
    HOLDS(0);
}

// What a graph has left behind is not waited for, because nothing is under way that would free it.
static void beside_what_is_left(void) {
    CUgraph graph;
    CUgraphExec exec;
    OK(CU(cuGraphCreate)(&graph, 0));
    CUdeviceptr pointer = add(graph, 0, 100 * MIB, 0);
    OK(CU(cuGraphInstantiateWithFlags)(&exec, graph, 0));
    OK(launch(exec, 0));
    CUgraphExec beside = ready(frees_itself(200));
    uint64_t before = now_ns();
    for (int round = 0; round < 40; round++) REFUSED(cuGraphLaunch, CU(cuGraphLaunch)(beside, stream));
    // A wait for work would have been half a second each.
    MUST(now_ns() - before < 10000000000u);
    HOLDS(100);
    OK(CU(cuMemFree_v2)(pointer));
    OK(launch(beside, 0));
    OK(CU(cuDeviceGraphMemTrim)(0));
    HOLDS(0);
}

static CUgraph many(int count, int freed) {
    CUgraph graph;
    OK(CU(cuGraphCreate)(&graph, 0));
    for (int index = 0; index < count; index++) {
        add(graph, index, MIB, freed);
    }
    return graph;
}

// The driver may put nodes into pages together, or each into pages of its own, as here: then these nodes of 1 MiB take twice
// what they add up to. Where only the sum fits, an upload tells, which can be undone.
static void more_than_the_sum(void) {
    CUdeviceptr pointer;
    CUgraphExec small = ready(many(40, 1)), large = ready(many(200, 1));
    InstantiateParams params = {.flags = UPLOAD, .hUploadStream = stream};
    OK(CU(cuGraphUpload)(small, stream));
    HOLDS(80);
    OK(CU(cuDeviceGraphMemTrim)(0));
    // What was only uploaded can be undone.
    IS(CUDA_ERROR_OUT_OF_MEMORY, CU(cuGraphUpload)(large, stream));
    HOLDS(0);
    CUgraph graph = many(200, 1);
    CUgraphExec none = small;
    IS(CUDA_ERROR_OUT_OF_MEMORY, CU(cuGraphInstantiateWithParams)(&none, graph, &params));
    MUST(!none);
    HOLDS(0);

    // What is launched could not: an upload comes first.
    CUgraphExec kept = ready(many(130, 0));
    REFUSED(cuGraphLaunch, CU(cuGraphLaunch)(kept, stream));
    REFUSED(cuGraphLaunch_ptsz, CU(cuGraphLaunch_ptsz)(kept, stream));
    MUST(CU(gpuSimCalls)("cuGraphUpload") == 3 && CU(gpuSimCalls)("cuGraphUpload_ptsz") == 1);
    HOLDS(0);
    OK(CU(cuMemAlloc_v2)(&pointer, 200 * MIB));
    IS(CUDA_ERROR_OUT_OF_MEMORY, CU(cuGraphUpload)(small, stream));
    OK(CU(cuMemFree_v2)(pointer));
    OK(CU(cuMemAlloc_v2)(&pointer, 230 * MIB));
    REFUSED(cuGraphUpload, CU(cuGraphUpload)(small, stream));
    OK(CU(cuMemFree_v2)(pointer));
    OK(launch(small, 0));
    HOLDS(80);
    OK(CU(cuDeviceGraphMemTrim)(0));
    HOLDS(0);
}

// What graphs do not need at the moment is no reason for a refusal, and graphs make others' slack go too.
static void slack(void) {
    CUdeviceptr pointer;
    CUgraphExec exec = ready(frees_itself(200));
    OK(launch(exec, 0));
    HOLDS(200);
    OK(CU(cuMemAlloc_v2)(&pointer, 200 * MIB));
    HOLDS(200);
    REFUSED(cuGraphLaunch, CU(cuGraphLaunch)(exec, stream));
    OK(CU(cuMemFree_v2)(pointer));
    OK(launch(exec, 1));
    HOLDS(200);
    OK(CU(cuMemAllocAsync)(&pointer, 192 * MIB, stream));
    HOLDS(192);
    uint64_t all = UINT64_MAX;
    CUmemoryPool pool;
    OK(CU(cuDeviceGetDefaultMemPool)(&pool, 0));
    OK(CU(cuMemPoolSetAttribute)(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
    OK(CU(cuMemFreeAsync)(pointer, stream));
    OK(CU(cuStreamSynchronize)(stream));
    HOLDS(192);
    OK(launch(exec, 0));
    HOLDS(200);
    OK(CU(cuDeviceGraphMemTrim)(0));
    HOLDS(0);
}

// The program may set the driver's high marks back; they are not what is believed.
static void attributes(void) {
    uint64_t zero = 0;
    CUgraphExec exec = ready(frees_itself(60));
    OK(launch(exec, 0));
    OK(CU(cuDeviceSetGraphMemAttribute)(0, 1, &zero));
    OK(CU(cuDeviceSetGraphMemAttribute)(0, 3, &zero));
    HOLDS(60);
    OK(CU(cuDeviceGraphMemTrim)(0));
    HOLDS(0);
}

int main(int argc, char **argv) {
    static const Case cases[] = {
        {"every_way", every_way}, {"refusals", refusals},       {"uploads", uploads},
        {"captured", captured},   {"shared", shared},           {"left_behind", left_behind}, {"beside", beside_what_is_left},
        {"slack", slack},         {"more_than_the_sum", more_than_the_sum}, {"attributes", attributes},
    };
    cu_begin();
    OK(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
    HOLDS(0);
    return CASES(cases);
}
