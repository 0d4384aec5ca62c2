#pragma once
#include <cstdint>

/// The part of DLPack's C interface (version 1) that this module reads, with DLPack's names.
/// Sources: the DLPack specification's "C API" and "Python Specification", dmlc.github.io/dlpack.
namespace tilewise::python::dlpack {

enum DeviceType : std::int32_t { kCpu = 1, kCuda = 2, kCudaHost = 3, kCudaManaged = 13 };
enum TypeCode : std::uint8_t {
  kInt = 0,
  kFloat = 2,
  kBfloat = 4,
  kFloat8E4m3fn = 10,
  kFloat8E5m2 = 12
};

struct Device {
  std::int32_t type, index;
};
struct DataType {
  std::uint8_t code, bits;
  std::uint16_t lanes;
};
/// `shape` and `strides` have `dims` numbers, in elements. `strides` may be null: row-major.
struct Tensor {
  void* data;
  Device device;
  std::int32_t dims;
  DataType type;
  std::int64_t* shape;
  std::int64_t* strides;
  std::uint64_t byte_offset;
};

/// The contents of a capsule named "dltensor".
struct ManagedTensor {
  Tensor tensor;
  void* context;
  void (*deleter)(ManagedTensor*);
};

struct Version {
  std::uint32_t major, minor;
};
/// The contents of a capsule named "dltensor_versioned".
struct VersionedTensor {
  Version version;
  void* context;
  void (*deleter)(VersionedTensor*);
  std::uint64_t flags;
  Tensor tensor;
};
constexpr std::uint64_t kReadOnly = 1, kCopied = 2;

/// A framework's table of functions: the capsule "dlpack_exchange_api" in the attribute
/// `__dlpack_c_exchange_api__` of a tensor's type. Functions return 0, or -1 with a Python
/// exception. The caller holds the GIL.
struct Exchange {
  Version version;
  const void* earlier;
  int (*allocate)(Tensor* prototype, VersionedTensor** made, void* context,
                  void (*set_error)(void* context, const char* kind, const char* message));
  int (*managed_of)(void* object, VersionedTensor** made);
  int (*object_of)(VersionedTensor* tensor, void** object);
  int (*view_of)(void* object, Tensor* view);  ///< may be null
  int (*current_stream)(std::int32_t device_type, std::int32_t device, void** stream);
};

}  // namespace tilewise::python::dlpack
