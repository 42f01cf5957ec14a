//! The rows of the table.

use std::ffi::{CStr, c_char, c_uint, c_void};
use std::ptr::null_mut;

use crate::driver::{
    BeginCapture, CtxRetain, CtxSet, DeviceGet, Driver, EndCapture, GetFunction, GetProcAddress,
    GraphLaunch, Handle, Init, Instantiate, Launch, MemAlloc, MemFree, MemGetInfo, ModuleLoad,
    Pair, StreamCreate, check,
};
use crate::measure::{Effort, Form, alone, together};

const KERNELS: &str = concat!(include_str!("../../gpu-sim/kernels.ptx"), "\0");

/// What an allocation row takes and gives back.
const BLOCK: usize = 1 << 20;

/// What the live allocations of `alloc_live` are.
const SMALL: usize = 4096;

/// A context, current on this thread, and something to launch.
struct Ready {
    context: Handle,
    function: Handle,
    launch: Pair<Launch>,
    stream_create: StreamCreate,
    ctx_set: CtxSet,
}

// Contexts, functions and streams may be used by any thread.
// SAFETY: the driver documents its handles so.
unsafe impl Sync for Ready {}

impl Ready {
    /// Sets up as a program does: through the hooks.
    fn new(driver: &Driver) -> Result<Self, String> {
        let (mut device, mut context) = (0, null_mut());
        let (mut module, mut function) = (null_mut(), null_mut());
        // SAFETY: each type is that of its function; out-pointers, image and name are valid.
        unsafe {
            let init = driver.pair::<Init>(c"cuInit")?.hooked;
            check("cuInit", init(0))?;
            let get = driver.pair::<DeviceGet>(c"cuDeviceGet")?.hooked;
            check("cuDeviceGet", get(&raw mut device, 0))?;
            let retain = driver
                .pair::<CtxRetain>(c"cuDevicePrimaryCtxRetain")?
                .hooked;
            check("cuDevicePrimaryCtxRetain", retain(&raw mut context, device))?;
            let ctx_set = driver.pair::<CtxSet>(c"cuCtxSetCurrent")?.hooked;
            check("cuCtxSetCurrent", ctx_set(context))?;
            let load = driver.pair::<ModuleLoad>(c"cuModuleLoadData")?.hooked;
            check(
                "cuModuleLoadData",
                load(&raw mut module, KERNELS.as_ptr().cast::<c_void>()),
            )?;
            let find = driver.pair::<GetFunction>(c"cuModuleGetFunction")?.hooked;
            let code = find(&raw mut function, module, c"sim_work".as_ptr());
            check("cuModuleGetFunction", code)?;
            Ok(Self {
                context,
                function,
                launch: driver.pair::<Launch>(c"cuLaunchKernel")?,
                stream_create: driver.pair::<StreamCreate>(c"cuStreamCreate")?.hooked,
                ctx_set,
            })
        }
    }

    fn stream(&self) -> Handle {
        let mut stream = null_mut();
        // SAFETY: the context exists and the out-pointer is valid.
        unsafe {
            (self.ctx_set)(self.context);
            (self.stream_create)(&raw mut stream, 1);
        }
        stream
    }

    /// One launch of 1 ns on `stream`; the answer is for the caller to check once.
    fn launch(&self, form: Form, stream: Handle) -> c_uint {
        let mut iterations = 1_u64;
        let mut arguments = [(&raw mut iterations).cast::<c_void>()];
        let call = match form {
            Form::Bare => self.launch.bare,
            Form::Hooked => self.launch.hooked,
        };
        // SAFETY: the kernel takes one u64, which the driver copies before it returns.
        unsafe {
            call(
                self.function,
                1,
                1,
                1,
                32,
                1,
                1,
                0,
                stream,
                arguments.as_mut_ptr(),
                null_mut(),
            )
        }
    }
}

/// `cuLaunchKernel` from 1 and from 8 threads.
pub(crate) fn launch(driver: &Driver, effort: Effort) -> Result<(), String> {
    let ready = Ready::new(driver)?;
    let stream = ready.stream();
    check("cuLaunchKernel", ready.launch(Form::Hooked, stream))?;
    alone(effort, |form| _ = ready.launch(form, stream)).print("launch", 1);
    let threads = 8;
    let prepare = || {
        let stream = ready.stream();
        let ready = &ready;
        move |form| _ = ready.launch(form, stream)
    };
    together(threads, effort, prepare).print("launch", threads);
    Ok(())
}

/// `cuGraphLaunch` of a graph of one kernel.
pub(crate) fn graph(driver: &Driver, effort: Effort) -> Result<(), String> {
    let ready = Ready::new(driver)?;
    let stream = ready.stream();
    let (mut graph, mut executable) = (null_mut(), null_mut());
    // SAFETY: each type is that of its function; the calls come in the documented order.
    let launch = unsafe {
        let begin = driver
            .pair::<BeginCapture>(c"cuStreamBeginCapture_v2")?
            .hooked;
        check("cuStreamBeginCapture", begin(stream, 2))?;
        check("cuLaunchKernel", ready.launch(Form::Hooked, stream))?;
        let end = driver.pair::<EndCapture>(c"cuStreamEndCapture")?.hooked;
        check("cuStreamEndCapture", end(stream, &raw mut graph))?;
        let instantiate = driver
            .pair::<Instantiate>(c"cuGraphInstantiateWithFlags")?
            .hooked;
        let code = instantiate(&raw mut executable, graph, 0);
        check("cuGraphInstantiateWithFlags", code)?;
        let launch = driver.pair::<GraphLaunch>(c"cuGraphLaunch")?;
        check("cuGraphLaunch", (launch.hooked)(executable, stream))?;
        launch
    };
    let samples = alone(effort, |form| {
        let call = if form == Form::Bare {
            launch.bare
        } else {
            launch.hooked
        };
        // SAFETY: graph and stream exist.
        unsafe { call(executable, stream) };
    });
    samples.print("graph", 1);
    Ok(())
}

/// `cuMemAlloc` and `cuMemFree` of one block, nothing else live.
pub(crate) fn alloc(driver: &Driver, effort: Effort) -> Result<(), String> {
    let _ready = Ready::new(driver)?;
    pairs_of_alloc_and_free(driver, effort, "alloc")
}

/// The same with 1,000, 10,000 and 50,000 allocations live.
pub(crate) fn alloc_live(driver: &Driver, effort: Effort) -> Result<(), String> {
    let _ready = Ready::new(driver)?;
    // SAFETY: the type is that of the function.
    let alloc = unsafe { driver.pair::<MemAlloc>(c"cuMemAlloc_v2")? }.hooked;
    let mut live = 0;
    for count in [1000, 10_000, 50_000] {
        while live < count {
            let mut address = 0;
            // SAFETY: the out-pointer is valid.
            check("cuMemAlloc", unsafe { alloc(&raw mut address, SMALL) })?;
            live += 1;
        }
        pairs_of_alloc_and_free(driver, effort, &format!("alloc-live-{count}"))?;
    }
    Ok(())
}

fn pairs_of_alloc_and_free(driver: &Driver, effort: Effort, row: &str) -> Result<(), String> {
    // SAFETY: each type is that of its function.
    let (alloc, free) = unsafe {
        (
            driver.pair::<MemAlloc>(c"cuMemAlloc_v2")?,
            driver.pair::<MemFree>(c"cuMemFree_v2")?,
        )
    };
    let mut wrong = 0;
    let samples = alone(effort, |form| {
        let (alloc, free) = match form {
            Form::Bare => (alloc.bare, free.bare),
            Form::Hooked => (alloc.hooked, free.hooked),
        };
        let mut address = 0;
        // SAFETY: the out-pointer is valid; what was given is freed.
        unsafe { wrong |= alloc(&raw mut address, BLOCK) | free(address) };
    });
    check("an allocation or free", wrong)?;
    samples.print(row, 1);
    Ok(())
}

/// Joins the group with a context and one block.
pub(crate) fn hold(driver: &Driver) -> Result<(), String> {
    let _ready = Ready::new(driver)?;
    let mut address = 0;
    // SAFETY: the type is that of the function; the out-pointer is valid.
    let code = unsafe {
        let alloc = driver.pair::<MemAlloc>(c"cuMemAlloc_v2")?.hooked;
        alloc(&raw mut address, BLOCK)
    };
    check("cuMemAlloc", code)
}

/// `cuMemGetInfo`.
pub(crate) fn info(driver: &Driver, effort: Effort) -> Result<(), String> {
    let _ready = Ready::new(driver)?;
    // SAFETY: the type is that of the function.
    let info = unsafe { driver.pair::<MemGetInfo>(c"cuMemGetInfo_v2")? };
    let mut wrong = 0;
    let samples = alone(effort, |form| {
        let call = if form == Form::Bare {
            info.bare
        } else {
            info.hooked
        };
        let (mut free, mut total) = (0, 0);
        // SAFETY: the out-pointers are valid.
        wrong |= unsafe { call(&raw mut free, &raw mut total) };
    });
    check("cuMemGetInfo", wrong)?;
    samples.print("info", 1);
    Ok(())
}

/// `cuGetProcAddress` for a function that is hooked and one that is not.
pub(crate) fn lookup(driver: &Driver, effort: Effort) -> Result<(), String> {
    const NAMES: [&CStr; 2] = [c"cuMemAlloc", c"cuCtxGetFlags"];
    let _ready = Ready::new(driver)?;
    // SAFETY: the type is that of the function.
    let find = unsafe { driver.pair::<GetProcAddress>(c"cuGetProcAddress_v2")? };
    let mut wrong = 0;
    let mut turn = 0_usize;
    let samples = alone(effort, |form| {
        let call = if form == Form::Bare {
            find.bare
        } else {
            find.hooked
        };
        let name = NAMES
            .get(turn % 2)
            .map_or(c"".as_ptr(), |name| name.as_ptr());
        turn += 1;
        let (mut found, mut status) = (null_mut(), 0);
        // SAFETY: the name is terminated, the out-pointers valid.
        wrong |= unsafe {
            call(
                name.cast::<c_char>(),
                &raw mut found,
                12_000,
                0,
                &raw mut status,
            )
        };
    });
    check("cuGetProcAddress", wrong)?;
    samples.print("lookup", 1);
    Ok(())
}
