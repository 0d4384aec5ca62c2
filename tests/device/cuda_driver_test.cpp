// Loading the driver, its errors, and the choice of a device, with a fake driver library. Each case
// runs in its own process, because a driver is never unloaded.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "device/cuda/cuda.hpp"
#include "device/cuda/device_list.hpp"
#include "device/cuda/nvml.hpp"
#include "gpu_kernels.hpp"
#include "tilewise/error.hpp"

namespace tilewise::cuda_driver_test {
namespace {
namespace fs = std::filesystem;

using Settings = std::vector<std::pair<const char*, std::string>>;

/// Built once per process, in a temporary folder.
class FakeDriver {
 public:
  FakeDriver()
      : folder_(fs::temp_directory_path() / ("tilewise_fake_" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
    path_ = (folder_ / "libfake.so").string();
    const std::string source = std::string(TILEWISE_SOURCE_DIR) + "/tests/device/fake_driver.cpp";
    const std::string command = "c++ -std=c++17 -shared -fPIC -o '" + path_ + "' '" + source + "'";
    built_ = std::system(command.c_str()) == 0;
  }
  ~FakeDriver() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  static const FakeDriver& instance() {
    static const FakeDriver fake;
    return fake;
  }
  const std::string& path() const { return path_; }
  bool built() const { return built_; }

 private:
  fs::path folder_;
  std::string path_;
  bool built_ = false;
};

/// Runs `body` with these settings, prints its exception as "kind: message", and ends the process.
[[noreturn]] void run(const Settings& settings, const std::function<void()>& body) {
  unsetenv("CUDA_VISIBLE_DEVICES");
  setenv("TILEWISE_CUDA_DRIVER", FakeDriver::instance().path().c_str(), 1);
  for (const auto& [name, value] : settings) setenv(name, value.c_str(), 1);
  try {
    body();
    std::cerr << "done" << std::endl;
  } catch (const Error& error) {
    const std::string message = error.what();
    if (message.find('\n') != std::string::npos) std::_Exit(2);
    std::cerr << to_string(error.kind()) << ": " << message << std::endl;
  }
  std::_Exit(0);
}

void list() { cuda::list_devices(); }

class CudaDriverDeathTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(FakeDriver::instance().built()) << "the fake driver does not compile";
  }
};

#define EXPECT_SAYS(settings, body, expected) \
  EXPECT_EXIT(run(settings, body), testing::ExitedWithCode(0), expected)

TEST_F(CudaDriverDeathTest, NoLibraryIsOneLine) {
  EXPECT_SAYS((Settings{{"TILEWISE_CUDA_DRIVER", "/nowhere/libcuda.so.1"}}), list,
              "^no_device: no NVIDIA driver: .*/nowhere/libcuda.so.1");
}

TEST_F(CudaDriverDeathTest, TooOldNamesBothVersions) {
  EXPECT_SAYS((Settings{{"FAKE_CUDA_VERSION", "11040"}}), list,
              "^no_device: .*too old: it serves CUDA 11.4, and CUDA 12.0 .*is needed");
}

TEST_F(CudaDriverDeathTest, OldestThatServesIsAccepted) {
  EXPECT_SAYS((Settings{{"FAKE_CUDA_VERSION", "12000"}}), list, "^done");
}

TEST_F(CudaDriverDeathTest, MissingEntryPointIsNamed) {
  EXPECT_SAYS((Settings{{"FAKE_CUDA_LACKS", "cuGraphLaunch"}}), list,
              "^no_device: .*CUDA 13.0.*lacks cuGraphLaunch");
}

TEST_F(CudaDriverDeathTest, TensorMapsAreNotNeededToStart) {
  EXPECT_SAYS((Settings{{"FAKE_CUDA_LACKS", "cuTensorMapEncodeTiled"}}), list, "^done");
  const auto encode = [] {
    auto device = cuda::open_device("0");
    TensorMapRecipe recipe;
    recipe.dims = {16, 16};
    recipe.box = {4, 4};
    char map[128];
    device->encode_tensor_map(recipe, nullptr, 64, map);
  };
  EXPECT_SAYS((Settings{{"FAKE_CUDA_LACKS", "cuTensorMapEncodeTiled"}}), encode,
              "^unsupported: .*CUDA 13.0.*tensor maps");
}

TEST_F(CudaDriverDeathTest, WithoutTensorMapsADeviceHasNoFeatureThatNeedsThem) {
  const auto say = [] {
    const Features features = cuda::open_device("0")->info().features;
    std::cerr << has(features, Feature::tma) << has(features, Feature::wgmma)
              << has(features, Feature::mbarrier) << ' ';
  };
  EXPECT_SAYS((Settings{}), say, "^111 done");
  EXPECT_SAYS((Settings{{"FAKE_CUDA_LACKS", "cuTensorMapEncodeTiled"}}), say, "^001 done");
}

TEST_F(CudaDriverDeathTest, NoDeviceIsSaid) {
  EXPECT_SAYS((Settings{{"FAKE_CUDA_INIT", "100"}}), list, "^no_device: no GPU: .*shows no device");
  EXPECT_SAYS((Settings{{"FAKE_CUDA_COUNT", "0"}}), list, "^no_device: no GPU: ");
}

TEST_F(CudaDriverDeathTest, HiddenDevicesNameTheVariable) {
  EXPECT_SAYS((Settings{{"FAKE_CUDA_INIT", "100"}, {"CUDA_VISIBLE_DEVICES", "-1"}}), list,
              "^no_device: no GPU: CUDA_VISIBLE_DEVICES=\"-1\" hides");
}

TEST_F(CudaDriverDeathTest, AChildByForkIsToldThatCudaDoesNotWorkThere) {
  const auto in_parent_and_child = [] {
    list();
    if (const pid_t child = fork(); child != 0) waitpid(child, nullptr, 0);
    list();
  };
  EXPECT_SAYS(Settings{}, in_parent_and_child, "^device: .*fork\\(\\).*done");
}

TEST_F(CudaDriverDeathTest, AChildOfAProcessThatHasNotUsedCudaUsesIt) {
  const auto in_child_alone = [] {
    if (const pid_t child = fork(); child != 0) {
      waitpid(child, nullptr, 0);
      std::_Exit(0);
    }
    list();
  };
  EXPECT_SAYS(Settings{}, in_child_alone, "^done");
}

TEST_F(CudaDriverDeathTest, FailingStartHasTheDriversWords) {
  EXPECT_SAYS((Settings{{"FAKE_CUDA_INIT", "803"}}), list,
              "^no_device: .*CUDA_ERROR_SYSTEM_DRIVER_MISMATCH .words of the fake");
}

TEST_F(CudaDriverDeathTest, AFailureIsNotRemembered) {
  const auto twice = [] {
    try {
      cuda::list_devices();
      std::cerr << "no error" << std::endl;
    } catch (const Error&) {
      setenv("FAKE_CUDA_VERSION", "13000", 1);
      cuda::list_devices();
    }
  };
  EXPECT_SAYS((Settings{{"FAKE_CUDA_VERSION", "10000"}}), twice, "^done");
}

TEST_F(CudaDriverDeathTest, FactsAreReadFromTheDriver) {
  const auto show = [] {
    const std::vector<DeviceInfo> devices = cuda::list_devices();
    const DeviceInfo& info = devices.at(0);
    const bool right =
        devices.size() == 2 && info.name == "NVIDIA Fake 9000" &&
        info.target == best_target(9, 0) && has(info.features, Feature::tma) &&
        info.multiprocessors == 132 && info.clock_khz == 1980000 &&
        info.memory_clock_khz == 3201000 && info.memory_bus_bits == 6144 &&
        info.memory_bytes == std::int64_t{8} << 30 && info.l2_bytes == 62914560 &&
        info.shared_per_block == 232448 && info.shared_per_multiprocessor == 233472 &&
        info.shared_reserved_per_block == 1024 && info.threads_per_multiprocessor == 2048 &&
        info.blocks_per_multiprocessor == 32 && info.fp32_lanes == 128 &&
        !has(devices.at(1).features, Feature::tma);
    std::cerr << (right ? "right " : "wrong ") << info.uuid << " " << devices.at(1).uuid << " ";
  };
  EXPECT_SAYS(Settings{}, show,
              "^right GPU-ab010203-0405-0607-0809-0a0b0c0d0e0f "
              "MIG-ab020203-0405-0607-0809-0a0b0c0d0e0f done");
}

TEST_F(CudaDriverDeathTest, WrongIndexSaysWhichExist) {
  const auto open = [] { cuda::open_device("9"); };
  EXPECT_SAYS((Settings{{"CUDA_VISIBLE_DEVICES", "0,1"}}), open,
              "^no_device: no device 9; there is 0 .NVIDIA Fake 9000, GPU-ab01.*1 .NVIDIA Fake 75.*"
              "CUDA_VISIBLE_DEVICES is \"0,1\"");
}

TEST_F(CudaDriverDeathTest, OutOfMemorySaysWantedAndFree) {
  const auto allocate = [] { cuda::open_device("0")->allocate(std::int64_t{5} << 30); };
  EXPECT_SAYS(
      Settings{}, allocate,
      "^out_of_memory: .*5368709120 bytes .5.00 GiB. wanted, and 3221225472 bytes .3.00 GiB. "
      "of .*8.00 GiB. free on NVIDIA Fake 9000");
}

TEST_F(CudaDriverDeathTest, UnexpectedRefusalIsADeviceError) {
  const auto synchronize = [] { cuda::open_device("0")->synchronize(nullptr); };
  EXPECT_SAYS(Settings{}, synchronize,
              "^device: waiting for a stream failed: CUDA_ERROR_NOT_SUPPORTED .words of the fake");
}

TEST_F(CudaDriverDeathTest, WorkspaceWithoutPoolsIsPlainMemory) {
  const auto workspace = [] {
    auto device = cuda::open_device("0");
    void* pointer = device->allocate_async(4096, nullptr);
    std::cerr << (pointer ? "got " : "none ");
    device->free_async(pointer, nullptr);
  };
  EXPECT_SAYS(Settings{}, workspace, "^got done");
}

/// A function of the fake driver, in the process that loaded it.
template <typename Function>
Function* inside(const char* name) {
  void* library = dlopen(FakeDriver::instance().path().c_str(), RTLD_NOW);
  return reinterpret_cast<Function*>(dlsym(library, name));
}

TEST_F(CudaDriverDeathTest, AnotherContextIsPutBack) {
  const auto switching = [] {
    auto device = cuda::open_device("1");
    void* const theirs = inside<void*(int)>("fake_context_of")(0);
    void* const ours = inside<void*(int)>("fake_context_of")(1);
    inside<void(void*)>("fake_set_current")(theirs);
    DeviceBuffer buffer(*device, 64);
    std::cerr << (inside<void*()>("fake_context_of_last_allocation")() == ours ? "ours " : "wrong ")
              << (inside<void*()>("fake_current")() == theirs ? "theirs " : "lost ");
  };
  EXPECT_SAYS(Settings{}, switching, "^ours theirs done");
}

TEST_F(CudaDriverDeathTest, CurrentDeviceFollowsTheThreadsContext) {
  const auto follow = [] {
    std::cerr << cuda::open_current_device()->info().uuid << " ";
    inside<void(void*)>("fake_set_current")(inside<void*(int)>("fake_context_of")(1));
    std::cerr << cuda::open_current_device()->info().uuid << " ";
  };
  EXPECT_SAYS(Settings{}, follow, "^GPU-ab01[^ ]* MIG-ab02[^ ]* done");
}

TEST_F(CudaDriverDeathTest, PrimaryContextIsHeldAsLongAsTheDevice) {
  const auto hold = [] {
    auto retained = inside<int()>("fake_retained");
    {
      auto first = cuda::open_device("0");
      auto second = cuda::open_device("0");
      std::cerr << retained() << " ";
    }
    std::cerr << retained() << " ";
  };
  EXPECT_SAYS(Settings{}, hold, "^2 0 done");
}

TEST_F(CudaDriverDeathTest, ADamagedImageNeverReachesTheDriver) {
  for (const char* bytes : {"", "no cubin",
                            "\x7f"
                            "ELF cut short"}) {
    const auto load = [bytes] {
      Image image;
      image.kernel = {"simt.cu", "simt", {}};
      image.binary.assign(bytes, bytes + std::string(bytes).size());
      cuda::open_device("0")->load(image, 0, 1);
    };
    EXPECT_SAYS(Settings{}, load, "^invalid_argument: the image of simt.cu:simt .* is no cubin");
  }
}

Image compiled_add() {
  CompileRequest request;
  request.kernel = {"add.cu", "add", {}};
  request.text = test::kAdd;
  request.target = {9, 0, true};
  return cuda::load_compiler()->compile(request).image.value();
}

TEST_F(CudaDriverDeathTest, ARealCubinReachesTheDriverAndItsRefusalIsTold) {
  const auto load = [] { cuda::open_device("0")->load(compiled_add(), 0, 1); };
  EXPECT_SAYS(Settings{}, load,
              "^(device: loading add.cu:add for sm_90a failed: CUDA_ERROR_NOT_SUPPORTED|"
              "compiler: no NVRTC)");
  const auto load_half = [] {
    Image image = compiled_add();
    image.binary.resize(image.binary.size() / 2);
    cuda::open_device("0")->load(image, 0, 1);
  };
  EXPECT_SAYS(Settings{}, load_half, "^(invalid_argument: .*cut short|compiler: no NVRTC)");
}

TEST(SelectDevice, ByAutoIndexAndUuid) {
  DeviceInfo first, second;
  first.uuid = "GPU-ab010203-0405-0607-0809-0a0b0c0d0e0f";
  second.uuid = "GPU-ab020203-0405-0607-0809-0a0b0c0d0e0f";
  const std::vector<DeviceInfo> devices{first, second};
  EXPECT_EQ(cuda::select_device("auto", devices), 0);
  EXPECT_EQ(cuda::select_device("0", devices), 0);
  EXPECT_EQ(cuda::select_device("1", devices), 1);
  EXPECT_EQ(cuda::select_device(second.uuid, devices), 1);
  EXPECT_EQ(cuda::select_device("GPU-ab02", devices), 1);
  EXPECT_EQ(cuda::select_device("gpu-AB01", devices), 0);
}

TEST(SelectDevice, RefusalsNameTheDevicesThereAre) {
  DeviceInfo first, second;
  first.uuid = "GPU-ab01";
  second.uuid = "GPU-ab02";
  for (const char* which :
       {"2", "99999999999999999999", "GPU-ab", "GPU-ff", "", "-1", "first", "0x"}) {
    try {
      cuda::select_device(which, {first, second});
      ADD_FAILURE() << which << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::no_device) << which;
      EXPECT_NE(std::string(error.what()).find("GPU-ab02"), std::string::npos) << error.what();
    }
  }
}

TEST(Nvml, ThrottleReasonsInWords) {
  EXPECT_EQ(cuda::throttle_words(0), "");
  EXPECT_EQ(cuda::throttle_words(1), "");  // idle
  EXPECT_EQ(cuda::throttle_words(0x4), "power cap");
  EXPECT_EQ(cuda::throttle_words(0x24 | 1), "power cap, thermal");
}

TEST(Nvml, TheEnergyOfAnUnknownDeviceIsNotKnown) {
  EXPECT_EQ(cuda::nvml_energy_mj("GPU-00000000-0000-0000-0000-000000000000"), std::nullopt);
}

TEST(RealDriver, AbsenceIsOneClearLine) {
  try {
    cuda::list_devices();
    GTEST_SKIP() << "there is a GPU";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::no_device);
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    EXPECT_TRUE(std::string(error.what()).starts_with("no ")) << error.what();
  }
}

}  // namespace
}  // namespace tilewise::cuda_driver_test
