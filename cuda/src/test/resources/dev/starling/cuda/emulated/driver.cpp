// The functions of a driver that cuDNN looks up while it plans for a described device: there is no device, and the
// functions do nothing.
#define API extern "C" __attribute__((visibility("default")))
#define NOTHING(name) API int name() { return 0; }

API int cuInit(unsigned) { return 100; }
API int cuDriverGetVersion(int* version) { *version = 13000; return 0; }
API int cuDeviceGetCount(int* count) { *count = 0; return 100; }
API int cuGetErrorString(int, const char** text) { *text = "no device"; return 0; }
API int cuGetErrorName(int, const char** text) { *text = "no device"; return 0; }

NOTHING(cuCtxGetCurrent)
NOTHING(cuCtxGetLimit)
NOTHING(cuCtxPopCurrent)
NOTHING(cuCtxPushCurrent)
NOTHING(cuDeviceGet)
NOTHING(cuDeviceGetAttribute)
NOTHING(cuFuncGetAttribute)
NOTHING(cuFuncSetAttribute)
NOTHING(cuKernelGetAttribute)
NOTHING(cuKernelGetFunction)
NOTHING(cuKernelSetAttribute)
NOTHING(cuLaunchCooperativeKernel)
NOTHING(cuLaunchKernel)
NOTHING(cuLaunchKernelEx)
NOTHING(cuLibraryGetGlobal)
NOTHING(cuLibraryGetKernel)
NOTHING(cuLibraryLoadData)
NOTHING(cuLibraryLoadFromFile)
NOTHING(cuLibraryUnload)
NOTHING(cuLinkAddData)
NOTHING(cuLinkComplete)
NOTHING(cuLinkCreate)
NOTHING(cuLinkDestroy)
NOTHING(cuModuleGetFunction)
NOTHING(cuModuleLoadData)
NOTHING(cuModuleLoadDataEx)
NOTHING(cuModuleUnload)
NOTHING(cuOccupancyMaxActiveBlocksPerMultiprocessor)
NOTHING(cuOccupancyMaxPotentialClusterSize)
NOTHING(cuStreamGetCtx)
