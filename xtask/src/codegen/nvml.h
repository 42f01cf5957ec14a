/* What bindgen reads for NVML: with the macro, the header declares the first versions too instead of renaming
   them to the newest. */
#define NVML_NO_UNVERSIONED_FUNC_DEFS 1
#include <nvml.h>

/* Still exported by drivers of the 500 series, in the header only as macros that rename them. */
nvmlReturn_t nvmlGetBlacklistDeviceCount(unsigned int *deviceCount);
nvmlReturn_t nvmlGetBlacklistDeviceInfoByIndex(unsigned int index, nvmlExcludedDeviceInfo_t *info);
