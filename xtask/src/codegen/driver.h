/* What bindgen reads for the driver. The macro makes NVIDIA's headers declare every exported name: the first
   versions, the later ones, and the per-thread-stream forms. The GL, EGL and VDPAU types are declared here as far
   as the headers use them, so that no system header is needed. */
#define __CUDA_API_VERSION_INTERNAL 1

typedef unsigned int GLenum;
typedef unsigned int GLuint;

typedef int EGLint;
typedef void *EGLImageKHR;
typedef void *EGLStreamKHR;
typedef void *EGLSyncKHR;

typedef unsigned int VdpDevice;
typedef unsigned int VdpFuncId;
typedef unsigned int VdpOutputSurface;
typedef unsigned int VdpStatus;
typedef unsigned int VdpVideoSurface;
typedef VdpStatus VdpGetProcAddress(VdpDevice device, VdpFuncId function_id, void **function_pointer);

#include <cuda.h>
#include <cudaEGL.h>
#include <cudaGL.h>
#include <cudaProfiler.h>
#include <cudaVDPAU.h>

#include <cudaEGLTypedefs.h>
#include <cudaGLTypedefs.h>
#include <cudaProfilerTypedefs.h>
#include <cudaTypedefs.h>
#include <cudaVDPAUTypedefs.h>
