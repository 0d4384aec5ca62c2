#include "device/machines.hpp"

#include <gtest/gtest.h>

#include <string>

#include "tilewise/error.hpp"

namespace tilewise::machines_test {
namespace {

TEST(OpenDevice, CpuIsAnotherNameOfHost) {
  for (const char* name : {"host", "cpu"})
    EXPECT_EQ(open_device(name)->info().target, default_host_target()) << name;
  for (const char* name : {"host:sm_90", "cpu:sm_90"})
    EXPECT_EQ(to_string(open_device(name)->info().target), "host:sm_90a") << name;
}

TEST(OpenDevice, OtherTextsListTheNames) {
  for (const char* name :
       {"HOST", "Cpu", "", "-1", "gpu", "cuda", "cuda:0", "0x", "first", "cpus"}) {
    try {
      open_device(name);
      ADD_FAILURE() << name << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid_argument) << name;
      for (const char* word : {"current", "auto", "index", "UUID", "host", "cpu"})
        EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    }
  }
}

TEST(OpenDevice, NamesOfGpusAreLookedFor) {
  for (const char* name : {"9999", "99999999999999999999", "GPU-ffffffff-none", "mig-none"}) {
    try {
      open_device(name);
      ADD_FAILURE() << name << " was found";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::no_device) << name << error.what();
    }
  }
}

}  // namespace
}  // namespace tilewise::machines_test
