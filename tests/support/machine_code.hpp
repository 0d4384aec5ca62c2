#pragma once
// Machine code of sm_90, sm_100 and sm_120: instructions of 16 bytes. The positions of fields are
// from nvdisasm's listings of code made by NVRTC 12.4 to 13.5.
#include <cstdint>
#include <vector>

#include "device/elf.hpp"

namespace tilewise::test {

struct Instruction {
  std::uint64_t low = 0, high = 0;

  bool loads_shared() const { return is(0x984) || is(0x83b); }                    ///< LDS, LDSM
  bool stores_shared() const { return is(0x388) || is(0x988) || is(0x844); }      ///< STS, STSM
  bool multiplies_shared() const { return is(0x9f0) || is(0x9f1) || is(0x9f3); }  ///< wgmma
  bool stores_by_tma() const { return is(0x3b5); }                                ///< UTMASTG
  bool loads_by_tma() const { return is(0x5b4); }                                 ///< UTMALDG
  bool fences_proxy() const { return is(0x3c6); }  ///< FENCE.VIEW.ASYNC: fence.proxy.async
  bool tries_wait() const { return is(0x5a7); }    ///< SYNCS.PHASECHK: mbarrier.try_wait
  /// SYNCS.ARRIVE.TRANS64.A1T0: an arrival. An arrival with the bytes that TMA will copy has no
  /// A1T0.
  bool arrives() const { return is(0x9a7) && (high >> 20 & 1); }
  bool is_membar() const { return is(0x992); }
  /// MEMBAR with the scope of the GPU or the system.
  bool fences_gpu() const { return is(0x992) && (high >> 12 & 7) >= 2; }

  bool always() const { return (low >> 12 & 0xf) == 7; }  ///< it has no predicate
  /// The counter (0 to 5) that the result's arrival counts down; 7: none.
  unsigned result_counter() const { return high >> 46 & 7; }
  /// The counters that the instruction counts down, with its result or before; one bit each.
  std::uint8_t counters() const {
    return static_cast<std::uint8_t>((1U << result_counter() | 1U << (high >> 49 & 7)) & 0x3f);
  }
  /// The counters that must end before the instruction starts; one bit each.
  unsigned waits() const { return high >> 52 & 0x3f; }

  bool branches() const { return is(0x947) || is(0x547) || is(0x348); }  ///< BRA, BRA.U, WARPSYNC
  /// Whether the next instruction never follows: EXIT, or BRA without a second condition.
  bool leaves() const { return always() && (is(0x94d) || (is(0x947) && (high >> 23 & 0x1f) == 7)); }
  /// The target of a branch: the number of instructions from the next one.
  std::int64_t jump() const {
    return (static_cast<std::int64_t>(low) >> 34) * 64 +
           static_cast<std::int64_t>(low >> 16 & 0xff) / 4;
  }

 private:
  bool is(unsigned opcode) const { return (low & 0xfff) == opcode; }
};

/// The instructions of a kernel's section.
inline std::vector<Instruction> instructions(Binary text) {
  std::vector<Instruction> all;
  for (std::size_t at = 0; at + 16 <= text.size(); at += 16)
    all.push_back({value_at<std::uint64_t>(text, at), value_at<std::uint64_t>(text, at + 8)});
  return all;
}

}  // namespace tilewise::test
