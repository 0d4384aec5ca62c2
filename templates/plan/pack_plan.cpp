#include "templates/plan/pack_plan.hpp"

#include <algorithm>
#include <utility>

#include "templates/plan/steps_layout.hpp"

namespace tilewise {
namespace {

using Kind = Argument::Kind;

constexpr int kRunBytes = PackLayout::kRunBytes;

/// An operand and its pack.
struct PackInput {
  StepRole role;
  OperandArguments call;
  std::int64_t rows, columns;  ///< as stored
  int bytes;                   ///< of an element
  int alignment;               ///< Problem's
  Pack pack;
  bool split;
  std::int64_t matrices;
};

PackInput operand_a(const Problem& p, Pack pack, bool split) {
  return {StepRole::pack_a,
          {{Kind::a}, {Kind::lda}, {Kind::stride_a}},
          rows_a(p),
          min_lda(p),
          bytes_of(p.a.type),
          p.a.alignment,
          pack,
          split,
          matrices_a(p)};
}
PackInput operand_b(const Problem& p, Pack pack, bool split) {
  return {StepRole::pack_b,
          {{Kind::b}, {Kind::ldb}, {Kind::stride_b}},
          rows_b(p),
          min_ldb(p),
          bytes_of(p.b.type),
          p.b.alignment,
          pack,
          split,
          matrices_b(p)};
}

/// An operand in the workspace.
struct Packed {
  std::int64_t rows, ld;  ///< padding included; rows of one part
  std::int64_t elements;  ///< from one product's operand to the next one's
  std::int64_t bytes;     ///< of all products
};

Packed packed_operand(const PackInput& from) {
  const bool turn = from.pack == Pack::transpose;
  const std::int64_t line = 128 / from.bytes;
  Packed to;
  to.rows = turn ? from.columns : from.rows;
  to.ld = round_up(std::max<std::int64_t>(1, turn ? from.rows : from.columns), line);
  to.elements = round_up((from.split ? 2 : 1) * to.rows * to.ld, 2 * line);
  to.bytes = from.matrices * to.elements * from.bytes;
  return to;
}

/// Blocks that pack an operand.
std::int64_t blocks_of(const PackInput& from, const Packed& to) {
  const PackLayout block{from.bytes, from.pack == Pack::transpose};
  return std::max<std::int64_t>(
      1, ceil_div(to.rows, block.rows()) * ceil_div(to.ld, block.columns()) * from.matrices);
}

/// pack.cu reads and writes each element once, in runs of 16 bytes; runs that are not aligned are
/// read as two chunks.
void add_pack_work(Work& work, const PackInput& from) {
  const double bytes =
      double(from.rows) * double(from.columns) * double(from.matrices) * from.bytes;
  // Loads of a run; one that is not aligned is realigned from two chunks.
  const bool shifted = from.alignment < kRunBytes;
  const double loads = shifted ? 2 : 1;
  const double stores = from.split ? 2 : 1;
  work.compulsory_bytes += (1 + stores) * bytes;
  work.global_bytes += (1 + stores) * bytes;
  work.shared_bytes += (loads + stores) * bytes;  // L1 passes whole lines, however narrow a load is
  work.instructions +=
      bytes / kRunBytes * (loads + (shifted ? 15 : 0) + (2 + stores) * kPerGlobalAccess);
}

/// Adds the packing of an operand to a step; `offset`: its first byte in the workspace. Returns the
/// packed operand's arguments.
OperandArguments add_pack(LaunchStep& step, const PackInput& from, const Packed& to,
                          std::int64_t offset) {
  const OperandArguments packed{
      {Kind::workspace, offset}, {Kind::integer64, to.ld}, {Kind::integer64, to.elements}};
  // The field order of Operand in pack.cu.
  for (const Argument& argument :
       {from.call.pointer, packed.pointer, from.call.ld, packed.ld, from.call.stride, packed.stride,
        Argument{Kind::integer64, from.rows}, Argument{Kind::integer64, from.columns},
        Argument{Kind::integer64, to.rows}})
    step.arguments.push_back(argument);
  step.packs.push_back({from.role, from.pack == Pack::transpose, false, from.split, from.rows,
                        from.columns, to.rows, to.ld, to.bytes});
  step.grid.x += static_cast<std::uint32_t>(blocks_of(from, to));
  add_pack_work(step.work, from);
  return packed;
}

}  // namespace

bool packs_round(const Problem& problem) { return problem.math == MathMode::tf32; }

Packs plan_packs(const Problem& problem, Pack a, Pack b, bool split) {
  Packs packs;
  LaunchStep step;
  step.grid.x = 0;
  const auto add = [&](const PackInput& from) {
    if (from.pack == Pack::none) return from.call;
    const Packed to = packed_operand(from);
    const std::int64_t offset =
        std::exchange(packs.workspace_bytes, packs.workspace_bytes + to.bytes);
    return add_pack(step, from, to, offset);
  };
  packs.a = add(operand_a(problem, a, split));
  const std::uint32_t blocks_a = step.grid.x;
  packs.b = add(operand_b(problem, b, split));
  if (step.packs.empty()) return packs;

  const bool both = step.packs.size() == 2;
  step.role = both ? StepRole::pack_both : step.packs.front().role;
  step.kernel = {"pack.cu",
                 "pack",
                 {{"BATCHED", is_batched(problem)},
                  {"ELEMENT_BYTES", bytes_of(problem.a.type)},
                  {"FIRST", static_cast<int>(a == Pack::none ? b : a)},
                  {"SECOND", static_cast<int>(both ? b : Pack::none)}}};
  if (packs_round(problem)) {
    step.kernel.defines.emplace("ROUND", 1);
    for (Packing& packing : step.packs) packing.rounded = true;
  }
  if (split) step.kernel.defines.emplace("SPLIT_TF32", 1);
  if (problem.pointers) step.kernel.defines.emplace("POINTERS_FROM", 1);
  if (both) step.arguments.push_back({Kind::blocks_a, blocks_a});
  step.block.x = PackLayout::kThreads;
  packs.step = std::move(step);
  return packs;
}

}  // namespace tilewise
