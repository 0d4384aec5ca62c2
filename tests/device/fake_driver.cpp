// A fake libcuda.so.1. cuda_driver_test builds it at run time and loads it with
// TILEWISE_CUDA_DRIVER. Environment variables set its behaviour:
//   FAKE_CUDA_VERSION  result of cuDriverGetVersion (13000)
//   FAKE_CUDA_INIT     result of cuInit (0)
//   FAKE_CUDA_COUNT    number of GPUs (2)
//   FAKE_CUDA_LACKS    an entry point that is missing
//   FAKE_CUDA_POOLS    whether its GPUs have memory pools (0)
// Needs no CUDA header. Unknown requests return CUDA_ERROR_NOT_SUPPORTED.
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

constexpr int kSuccess = 0, kInvalidValue = 1, kOutOfMemory = 2, kNotFound = 500,
              kUnsupported = 801;
constexpr std::size_t kFree = std::size_t{3} << 30, kTotal = std::size_t{8} << 30;

int setting(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atoi(text) : otherwise;
}

thread_local void* current_context = nullptr;
void* context_of_last_allocation = nullptr;
int retained = 0;
char contexts[16];

int init(unsigned) { return setting("FAKE_CUDA_INIT", 0); }
int error_name(int error, const char** name) {
  switch (error) {
    case kInvalidValue:
      *name = "CUDA_ERROR_INVALID_VALUE";
      return kSuccess;
    case kOutOfMemory:
      *name = "CUDA_ERROR_OUT_OF_MEMORY";
      return kSuccess;
    case 100:
      *name = "CUDA_ERROR_NO_DEVICE";
      return kSuccess;
    case 803:
      *name = "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH";
      return kSuccess;
    case kUnsupported:
      *name = "CUDA_ERROR_NOT_SUPPORTED";
      return kSuccess;
  }
  return kInvalidValue;
}
int error_string(int, const char** text) {
  *text = "words of the fake";
  return kSuccess;
}
int device_count(int* count) {
  *count = setting("FAKE_CUDA_COUNT", 2);
  return kSuccess;
}
int device_get(int* device, int index) {
  *device = index;
  return kSuccess;
}
/// Whether a device is like the first one; with FAKE_CUDA_ALIKE all devices are.
bool is_large(int device) { return device == 0 || setting("FAKE_CUDA_ALIKE", 0) != 0; }
int device_name(char* name, int size, int device) {
  std::strncpy(name, is_large(device) ? "NVIDIA Fake 9000" : "NVIDIA Fake 75 MIG 1g.5gb",
               static_cast<std::size_t>(size));
  return kSuccess;
}
// Begins with ab01 for the first device, ab02 for the second.
int device_uuid(unsigned char* uuid, int device) {
  for (int i = 0; i < 16; ++i) uuid[i] = static_cast<unsigned char>(i);
  uuid[0] = 0xab;
  uuid[1] = static_cast<unsigned char>(device + 1);
  return kSuccess;
}
int device_memory(std::size_t* bytes, int) {
  *bytes = kTotal;
  return kSuccess;
}
int device_attribute(int* value, int attribute, int device) {
  switch (attribute) {
    case 1:
      *value = 1024;
      return kSuccess;  // threads per block
    case 12:
      *value = 65536;
      return kSuccess;  // registers per block
    case 13:
      *value = 1980000;
      return kSuccess;  // clock
    case 16:
      *value = 132;
      return kSuccess;  // multiprocessors
    case 36:
      *value = 3201000;
      return kSuccess;  // memory clock
    case 37:
      *value = 6144;
      return kSuccess;  // memory bus
    case 38:
      *value = 62914560;
      return kSuccess;  // L2
    case 39:
      *value = 2048;
      return kSuccess;  // threads per multiprocessor
    case 75:
      *value = is_large(device) ? 9 : 7;
      return kSuccess;
    case 76:
      *value = is_large(device) ? 0 : 5;
      return kSuccess;
    case 81:
      *value = 233472;
      return kSuccess;  // shared per multiprocessor
    case 82:
      *value = 65536;
      return kSuccess;  // registers per multiprocessor
    case 97:
      *value = 232448;
      return kSuccess;  // shared per block, with opt-in
    case 106:
      *value = 32;
      return kSuccess;  // blocks per multiprocessor
    case 111:
      *value = 1024;
      return kSuccess;  // shared reserved per block
    case 115:
      *value = setting("FAKE_CUDA_POOLS", 0);
      return kSuccess;
  }
  return kInvalidValue;
}
int retain(void** context, int device) {
  ++retained;
  *context = &contexts[device];
  return kSuccess;
}
int release(int) {
  --retained;
  return kSuccess;
}
int set_current(void* context) {
  current_context = context;
  return kSuccess;
}
int get_current(void** context) {
  *context = current_context;
  return kSuccess;
}
int current_device(int* device) {
  *device = static_cast<int>(static_cast<char*>(current_context) - contexts);
  return kSuccess;
}
int allocate(unsigned long long* pointer, std::size_t bytes) {
  context_of_last_allocation = current_context;
  if (bytes > kFree) return kOutOfMemory;
  *pointer = reinterpret_cast<unsigned long long>(std::malloc(bytes));
  return kSuccess;
}
int release_memory(unsigned long long pointer) {
  std::free(reinterpret_cast<void*>(pointer));
  return kSuccess;
}
int memory_info(std::size_t* free_bytes, std::size_t* total) {
  *free_bytes = kFree;
  *total = kTotal;
  return kSuccess;
}
int unsupported() { return kUnsupported; }

template <typename Function>
void* erased(Function* function) {
  return reinterpret_cast<void*>(function);
}

struct Entry {
  const char* name;
  void* function;
};
const Entry kEntries[] = {{"cuInit", erased(init)},
                          {"cuGetErrorName", erased(error_name)},
                          {"cuGetErrorString", erased(error_string)},
                          {"cuDeviceGetCount", erased(device_count)},
                          {"cuDeviceGet", erased(device_get)},
                          {"cuDeviceGetName", erased(device_name)},
                          {"cuDeviceGetUuid", erased(device_uuid)},
                          {"cuDeviceTotalMem", erased(device_memory)},
                          {"cuDeviceGetAttribute", erased(device_attribute)},
                          {"cuDevicePrimaryCtxRetain", erased(retain)},
                          {"cuDevicePrimaryCtxRelease", erased(release)},
                          {"cuCtxSetCurrent", erased(set_current)},
                          {"cuCtxGetCurrent", erased(get_current)},
                          {"cuCtxGetDevice", erased(current_device)},
                          {"cuMemAlloc", erased(allocate)},
                          {"cuMemFree", erased(release_memory)},
                          {"cuMemGetInfo", erased(memory_info)}};

}  // namespace

extern "C" {

int cuDriverGetVersion(int* version) {
  *version = setting("FAKE_CUDA_VERSION", 13000);
  return kSuccess;
}

int cuGetProcAddress_v2(const char* name, void** function, int, unsigned long long, int* found) {
  const char* lacking = std::getenv("FAKE_CUDA_LACKS");
  *function = nullptr;
  *found = 1;  // symbol not found
  if (lacking && std::strcmp(lacking, name) == 0) return kNotFound;
  *found = 0;
  *function = erased(unsupported);
  for (const Entry& entry : kEntries) {
    if (std::strcmp(entry.name, name) == 0) *function = entry.function;
  }
  return kSuccess;
}

// Read and changed by the test.
void* fake_current() { return current_context; }
void fake_set_current(void* context) { current_context = context; }
void* fake_context_of_last_allocation() { return context_of_last_allocation; }
void* fake_context_of(int device) { return &contexts[device]; }
int fake_retained() { return retained; }
}
