#include "templates/families/wgmma/numbers.hpp"
#include "templates/space/common_constraints.hpp"
#include "vocabulary/rounding.hpp"

namespace tilewise::wgmma {
namespace {

using In = ConstraintInput;
using Common = CommonConstraints<Wgmma>;
constexpr auto constraint = Common::constraint;
constexpr auto hint = Common::hint;
constexpr auto work_hint = Common::work_hint;

std::vector<int> group_m_values() { return {1, 2, 4, 8, 16}; }

std::vector<Constraint> shape_constraints() {
  return {
      constraint("instruction_shape", {"TILE_M", "TILE_N", "SWAP_AB", "CONSUMERS", "PING_PONG"},
                 "TILE_M is a multiple of 64 for each warpgroup that shares a tile; with SWAP_AB "
                 "TILE_N is",
                 [](const Wgmma& s, const In&) { return s.left().span % (64 * s.readers()) == 0; }),
      constraint(
          "instruction_width", {"TILE_M", "TILE_N", "SWAP_AB", "PACK_A", "PACK_B"},
          "TILE_N (with SWAP_AB TILE_M) is at most 256, or two instructions of equal width, which "
          "are whole panels of 128 bytes where k is not contiguous; in i8 a width over 24 is a "
          "multiple of 16; the other side is at most 256",
          [](const Wgmma& s, const In& in) {
            const int width = s.width();
            if (s.left().span > 256 || width * s.across() != s.right().span || width % 8 != 0)
              return false;
            if (s.across() > 1 && !s.right().along_k && width % 64 != 0) return false;
            return in.problem.a.type != DType::i8 || width <= 24 || width % 16 == 0;
          }),
      constraint("ping_pong_turns", {"CONSUMERS", "PING_PONG"},
                 "PING_PONG needs two or more CONSUMERS",
                 [](const Wgmma& s, const In&) { return !s.ping_pong || s.consumers > 1; }),
      constraint("cluster_size", {"CLUSTER_M", "CLUSTER_N"}, "a cluster has one or two blocks",
                 [](const Wgmma& s, const In&) { return s.cluster() <= 2; }),
      constraint("whole_rows_a", {"TILE_M", "TILE_K", "PACK_A"},
                 "a row of A's tile (TILE_K elements where k is contiguous, else TILE_M) is a "
                 "multiple of 32 bytes",
                 [](const Wgmma& s, const In&) { return s.a.row_bytes() % 32 == 0; }),
      constraint("whole_rows_b", {"TILE_N", "TILE_K", "PACK_B"},
                 "a row of B's tile (TILE_K elements where k is contiguous, else TILE_N) is a "
                 "multiple of 32 bytes",
                 [](const Wgmma& s, const In&) { return s.b.row_bytes() % 32 == 0; }),
      constraint("whole_steps", {"TILE_K"}, "TILE_K is 64 to 256 bytes deep",
                 [](const Wgmma& s, const In&) {
                   const int bytes = s.tile_k * s.element;
                   return bytes >= 64 && bytes <= 256;
                 }),
      constraint("tma_places_tiles",
                 {"TILE_M", "TILE_N", "TILE_K", "CLUSTER_M", "CLUSTER_N", "PACK_A", "PACK_B"},
                 "each operand's tile is a multiple of 1024 bytes, and a block's share of its "
                 "panels of 128 and at most 256 rows",
                 [](const Wgmma& s, const In&) {
                   const auto placed = [](const TileLayout& tile) {
                     return tile.bytes() % 1024 == 0 && tile.placed();
                   };
                   return placed(s.a) && placed(s.b);
                 }),
  };
}

std::vector<Constraint> problem_constraints() {
  return {
      {"narrow_is_left",
       {"SWAP_AB", "PACK_B", "TILE_K", "PROMOTE"},
       "where B has fewer bits than A, SWAP_AB is 1, PACK_B no, TILE_K at least 64, and PROMOTE at "
       "most 1",
       [](const In& in) {
         const Configuration& c = in.configuration;
         return in.problem.a.type == in.problem.b.type ||
                (c.at("SWAP_AB") == 1 && c.at("PACK_B") == 0 && c.at("TILE_K") >= 64 &&
                 c.at("PROMOTE") <= 1);
       },
       false,
       [](const Problem& problem) { return problem.a.type != problem.b.type; }},
      constraint("k_contiguous_a", {"PACK_A"},
                 "k is contiguous in A, or in its transposed copy, but in 16 bits",
                 [](const Wgmma& s, const In&) { return s.element == 2 || s.a.along_k; }),
      constraint("k_contiguous_b", {"PACK_B"},
                 "k is contiguous in B, or in its transposed copy, but in 16 bits",
                 [](const Wgmma& s, const In&) { return s.element == 2 || s.b.along_k; }),
      {"cluster_of_one",
       {"CLUSTER_M", "CLUSTER_N"},
       "a cluster has one block where products have different k",
       [](const In& in) {
         return in.problem.grouping != Grouping::depth ||
                (in.configuration.at("CLUSTER_M") == 1 && in.configuration.at("CLUSTER_N") == 1);
       },
       false,
       is_grouped},
      constraint("packs_split", {"PACK_A", "PACK_B"},
                 "in f32x3 packs split both operands into two parts",
                 [](const Wgmma& s, const In& in) {
                   return s.parts_of_element == 1 || Wgmma::has_halves(in.problem) ||
                          (s.pack_a != Pack::none && s.pack_b != Pack::none);
                 }),
      constraint(
          "sums_promoted", {"PROMOTE", "TILE_K"},
          "PROMOTE is not no in f32x3, 8-bit floats, whose TILE_K is at most 128, and with "
          "scales of blocks of k, and no elsewhere; parts only where the problem asks for an "
          "order in parts",
          [](const Wgmma& s, const In& in) {
            if (s.adds_parts())
              return in.problem.order && in.problem.order->part > 0 &&
                     !Wgmma::must_promote(in.problem);
            if ((s.promote > 0) != Wgmma::must_promote(in.problem)) return false;
            return !is_fp8(in.problem.a.type) || s.tile_k <= 128;
          }),
      {"tile_of_scales",
       {"TILE_K"},
       "a tile of k has one scale, and all its steps where B has A's type",
       [](const In& in) {
         const EpilogueSlot* scales = scales_of(in.problem);
         const int tile_k = in.configuration.at("TILE_K");
         return !scales || (in.problem.a.type == in.problem.b.type ? scales->steps == tile_k
                                                                   : scales->steps % tile_k == 0);
       },
       false,
       [](const Problem& problem) { return has_scales(problem); }},
      constraint("aligned_a", {"PACK_A"},
                 "TMA copies A where it is aligned to 16 bytes, or packed; a batch by pointers is "
                 "packed",
                 [](const Wgmma& s, const In& in) {
                   return reads_a_alignment(in.problem, s.pack_a) == 16 &&
                          !(in.problem.pointers && s.pack_a == Pack::none);
                 }),
      constraint("aligned_b", {"PACK_B"},
                 "TMA copies B where it is aligned to 16 bytes, or packed; a batch by pointers is "
                 "packed",
                 [](const Wgmma& s, const In& in) {
                   return reads_b_alignment(in.problem, s.pack_b) == 16 &&
                          !(in.problem.pointers && s.pack_b == Pack::none);
                 }),
      constraint(
          "aligned_c", {"VECTOR_C", "SPLIT_K", "EPILOGUE"},
          "VECTOR_C elements are at most 16 bytes; where EPILOGUE writes from registers, at "
          "most C's alignment (of partial sums: the alignment of rows of n); TMA stores rows "
          "that are aligned to 16 bytes, and as long as a multiple of 16",
          [](const Wgmma& s, const In& in) {
            if (s.epilogue == 2) return s.rows_by_tma(in.problem);
            if (s.epilogue == 3) return true;
            return s.vector_c * s.out_bytes() <= 16 && (s.epilogue || !s.shift_c(in.problem));
          }),
      constraint(
          "whole_rows_c", {"EPILOGUE", "SWAP_AB", "SPLIT_K", "TILE_M", "TILE_N"},
          "where C is stored by TMA or in rows, SPLIT_K is 1, and a row of the tile a multiple of "
          "16 bytes; SWAP_AB does not store in rows",
          [](const Wgmma& s, const In&) {
            if (s.epilogue < 2) return true;
            return s.split == 1 && (s.swap ? s.epilogue == 2 : s.width() * s.result % 16 == 0);
          }),
      constraint(
          "stores_fit_sums", {"EPILOGUE", "VECTOR_C", "SWAP_AB", "TILE_N"},
          "where EPILOGUE writes from registers, VECTOR_C is at most 2, with SWAP_AB 1; else it "
          "divides the columns that a warp stages",
          [](const Wgmma& s, const In&) {
            if (s.epilogue >= 2) return true;
            if (s.epilogue) return s.staged_columns() % s.vector_c == 0;
            return s.vector_c <= (s.swap ? 1 : 2);
          }),
      constraint("stream_k_has_tiles",
                 {"STREAM_K", "SPLIT_K", "TILE_M", "TILE_N", "TILE_K", "CLUSTER_M", "CLUSTER_N",
                  "BLOCKS_PER_SM"},
                 "STREAM_K needs a partial last wave (tiles are no multiple of the clusters that "
                 "run at a time), less than 2^31 tiles of k in it, SPLIT_K 1, and no batch",
                 [](const Wgmma& s, const In& in) {
                   if (!s.stream_k) return true;
                   const StreamK stream_k = s.stream_k_of(in.problem, in.device);
                   return s.split == 1 && !is_batched(in.problem) && stream_k.rest_tiles > 0 &&
                          stream_k.rest_tiles * stream_k.depth < std::int64_t{1} << 31;
                 }),
      Common::grid_fits({"TILE_M", "TILE_N", "TILE_K", "SPLIT_K"}),
  };
}

std::vector<Constraint> resource_constraints() {
  return {
      Common::shared_fits({"TILE_M", "TILE_N", "TILE_K", "CONSUMERS", "PING_PONG", "STAGES",
                           "SWAP_AB", "EPILOGUE", "BLOCKS_PER_SM", "PACK_A", "PACK_B"},
                          "the stages and the epilogue's scratch of BLOCKS_PER_SM blocks"),
      Common::threads_resident({"CONSUMERS", "BLOCKS_PER_SM"}),
      constraint(
          "registers_fit",
          {"TILE_M", "TILE_N", "SWAP_AB", "CONSUMERS", "PING_PONG", "BLOCKS_PER_SM", "EPILOGUE",
           "PROMOTE", "SPLIT_K"},
          "a consumer's sums fit its registers, and one instruction's those that a thread has at "
          "the "
          "launch",
          [](const Wgmma& s, const In&) { return s.registers_fit(); }),
  };
}

std::vector<Constraint> search_hints() {
  return {
      hint("tile_m_used", {"TILE_M"}, "TILE_M is less than twice m, or at most 64",
           [](const Wgmma& s, const In& in) {
             return s.tile_m <= 64 || s.tile_m < 2 * most_rows(in.problem);
           }),
      hint("tile_n_used", {"TILE_N"}, "TILE_N is less than twice n, or at most 64",
           [](const Wgmma& s, const In& in) {
             return s.tile_n <= 64 || s.tile_n < 2 * in.problem.n;
           }),
      hint("fitting_width", {"TILE_M", "TILE_N", "SWAP_AB"},
           "a width over 48 (TILE_N; with SWAP_AB TILE_M) that is no multiple of 16 is the least "
           "for "
           "its number of tiles",
           [](const Wgmma& s, const In& in) {
             const int width = s.right().span;
             const std::int64_t all = s.swap ? most_rows(in.problem) : in.problem.n;
             return width % 16 == 0 || width <= 48 ||
                    width == round_up(ceil_div(all, ceil_div(all, width)), 8);
           }),
      hint("wide_tiles_fill", {"TILE_M", "TILE_N", "SWAP_AB"},
           "a tile over 256 wide leaves no multiprocessor without a tile",
           [](const Wgmma& s, const In& in) {
             return s.across() == 1 ||
                    row_tiles(in.problem, s.tile_m) * ceil_div(in.problem.n, s.tile_n) >=
                        in.device.multiprocessors;
           }),
      hint("enough_stages", {"STAGES", "TILE_K"}, "the stages hold at least 256 bytes of k",
           [](const Wgmma& s, const In&) { return s.stages * s.tile_k * s.element >= 256; }),
      hint("promotions_overlap", {"PROMOTE", "PING_PONG"},
           "with PROMOTE, but for parts, warpgroups share each tile: one adds while another "
           "multiplies",
           [](const Wgmma& s, const In&) {
             return s.promote == 0 || s.adds_parts() || !s.ping_pong;
           }),
      hint("ping_pong_needed",
           {"PING_PONG", "CONSUMERS", "TILE_M", "TILE_N", "CLUSTER_M", "CLUSTER_N", "BLOCKS_PER_SM",
            "SPLIT_K", "STREAM_K"},
           "with PING_PONG the busiest block has a tile for each warpgroup that multiplies, and "
           "there is no STREAM_K",
           [](const Wgmma& s, const In& in) {
             return !s.ping_pong || (!s.stream_k && ceil_div(s.items(in.problem),
                                                             s.resident(in.device)) >= s.consumers);
           }),
      work_hint("cluster_needed", {"CLUSTER_M", "CLUSTER_N", "TILE_M", "TILE_N"},
                "a cluster is no larger than the tiles there are",
                [](const Wgmma& s, const In& in) {
                  return (s.cluster_m == 1 || most_rows(in.problem) > s.tile_m) &&
                         (s.cluster_n == 1 || in.problem.n > s.tile_n);
                },
                {"CLUSTER_M", "CLUSTER_N"}),
      Common::split_needed(4),
      Common::split_has_work(),
      work_hint(
          "stream_k_has_work",
          {"STREAM_K", "TILE_M", "TILE_N", "TILE_K", "CLUSTER_M", "CLUSTER_N", "BLOCKS_PER_SM"},
          "a stream-K cluster has at least four tiles of k, and there are 2 (of a B of fewer bits "
          "1) to 16 waves before the last one",
          [](const Wgmma& s, const In& in) {
            if (!s.stream_k) return true;
            const StreamK stream_k = s.stream_k_of(in.problem, in.device);
            const std::int64_t wave = s.resident(in.device);
            return stream_k.share >= 4 && stream_k.whole_tiles >= (s.narrow ? 1 : 2) * wave &&
                   stream_k.whole_tiles <= 16 * wave;
          },
          {"STREAM_K"}),
      work_hint("pack_a_pays", {"PACK_A"},
                "A is packed only where it has to be, and transposed only for k to be contiguous",
                [](const Wgmma& s, const In& in) { return s.pack_a == needed_pack_a(in.problem); },
                {"PACK_A"}),
      work_hint("pack_b_pays", {"PACK_B"},
                "B is packed only where it has to be, and transposed only for k to be contiguous",
                [](const Wgmma& s, const In& in) { return s.pack_b == needed_pack_b(in.problem); },
                {"PACK_B"}),
      hint("wide_stores", {"EPILOGUE", "VECTOR_C", "SPLIT_K"},
           "stores from shared memory are at least as wide as C's alignment, 16 bytes at most",
           [](const Wgmma& s, const In& in) {
             const int bytes = s.vector_c * s.out_bytes(),
                       aligned = stored_alignment(in.problem, s.split);
             return s.epilogue != 1 || (bytes >= aligned && (bytes >= 4 || aligned < 4));
           }),
      hint("vector_c_used", {"EPILOGUE", "VECTOR_C"},
           "VECTOR_C is 1 where C is stored by TMA or in rows",
           [](const Wgmma& s, const In&) { return s.epilogue < 2 || s.vector_c == 1; }),
      hint("rows_needed", {"EPILOGUE"}, "C is stored in rows only where TMA cannot store it",
           [](const Wgmma& s, const In& in) {
             return s.epilogue != 3 || !s.rows_by_tma(in.problem);
           }),
      Common::group_m_matters(group_m_values(), {"TILE_M", "CLUSTER_M", "GROUP_M"}),
  };
}

}  // namespace

namespace {

/// along_k: k is contiguous.
Pack needed_pack(const Problem& problem, bool along_k, int alignment) {
  if (bytes_of(problem.a.type) != 2 && !along_k) return Pack::transpose;
  const bool splits = problem.math == MathMode::f32x3 && !Wgmma::has_halves(problem);
  return alignment < 16 || problem.pointers || splits ? Pack::pad : Pack::none;
}

}  // namespace

Pack needed_pack_a(const Problem& problem) {
  if (rows_begin_anywhere(problem)) return Pack::transpose;
  return needed_pack(problem, !problem.a.transposed, problem.a.alignment);
}
Pack needed_pack_b(const Problem& problem) {
  return needed_pack(problem, problem.b.transposed, problem.b.alignment);
}

std::vector<Parameter> parameters() {
  std::vector<int> spans;
  for (int span = 8; span <= 256; span += 8) spans.push_back(span);
  spans.insert(spans.end(), {288, 320, 384});
  return {
      {"TILE_M", spans, "rows of C a block computes"},
      {"TILE_N", spans, "columns of C a block computes"},
      {"TILE_K", {16, 32, 64, 128, 256}, "depth of the tiles in shared memory"},
      {"CONSUMERS", {1, 2, 3}, "warpgroups that multiply"},
      {"PING_PONG",
       {0, 1},
       "consumers take tiles of C in turn, else they share each",
       {"no", "yes"}},
      {"CLUSTER_M", {1, 2}, "tile rows of a cluster, which share B's tiles"},
      {"CLUSTER_N", {1, 2}, "tile columns of a cluster, which share A's tiles"},
      {"STAGES", {2, 3, 4, 5, 6, 7, 8, 10, 12}, "tiles in shared memory at a time"},
      {"SWAP_AB", {0, 1}, "computes C transposed, so that TILE_M can be small", {"no", "yes"}},
      {"PACK_A", {0, 1, 2}, "copy A beforehand", {"no", "padded", "transposed"}},
      {"PACK_B", {0, 1, 2}, "copy B beforehand", {"no", "padded", "transposed"}},
      {"EPILOGUE",
       {0, 1, 2, 3},
       "how C is stored: 'rows' in words of 4 bytes at any alignment",
       {"registers", "shared-memory", "tma", "rows"}},
      {"VECTOR_C", {1, 2, 4, 8}, "elements of C a store moves"},
      {"BLOCKS_PER_SM", {1, 2, 3}, "blocks that must fit on a multiprocessor: caps registers"},
      {"SPLIT_K",
       {1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 64, 128},
       "clusters that share the k of a tile"},
      added({"STREAM_K",
             {0, 1},
             "stream-K: the last wave's tiles are shared out evenly",
             {"no", "yes"}}),
      added(
          {"PROMOTE",
           {0, 1, 2, kPromotesParts},
           "ordinary additions sum the tiles of k, the instruction only within a tile; overlapped: "
           "while the next tile is multiplied; parts: they sum the parts of the problem's order",
           {"no", "yes", "overlapped", "parts"}}),
      {"GROUP_M", group_m_values(), "cluster rows that run together, for L2 (tile order)"},
  };
}

std::vector<Constraint> constraints() {
  std::vector<Constraint> all;
  for (auto* part :
       {&shape_constraints, &problem_constraints, &resource_constraints, &search_hints})
    for (Constraint& made : part()) all.push_back(std::move(made));
  return all;
}

}  // namespace tilewise::wgmma
