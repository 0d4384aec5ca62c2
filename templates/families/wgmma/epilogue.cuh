// wgmma's epilogues: how the sums in a warpgroup's registers become results in C. See wgmma.cu.
#pragma once
#include "families/wgmma/main_loop.cuh"
#include "words/mma.cuh"

// The output tile of a warp's 16 rows of the left operand, in its 64 rows of instruction i.
struct WarpTile {
  const WgmmaArgs& args;
  const Scalars& scalars;
  const WorkItem& work;
  int first_left;  // of the block's tile: the warp's first row of the left operand

  // The instruction's first row of the left operand, and its first of the right one, of the block's tile.
  static DEVICE_MEMBER int left_of(int i) { return i / kAcross * 64; }
  static DEVICE_MEMBER int right_of(int i) { return i % kAcross * WGMMA_N; }  //@ wgmma-right-of

  // Of an element: `left` and `right` from the instruction's first rows and the warp's on.
  DEVICE_MEMBER Place place(int i, int left, int right) const {
    const Int64 of_left = first_left + left_of(i) + left, of_right = right_of(i) + right;
    return {work.row + (SWAP_AB ? of_right : of_left), work.column + (SWAP_AB ? of_left : of_right), work.product};
  }
  // `width` of the right operand, from the instruction's row `first_right` on.
  DEVICE_MEMBER Output part(int i, int first_right, int width) const {
    const Int64 left = first_left + left_of(i);
    const int right = right_of(i) + first_right;
    const Int64 row = work.row + (SWAP_AB ? right : left), column = work.column + (SWAP_AB ? left : right);
    const auto inside = [](Int64 rest, int all) { return rest < all ? static_cast<int>(rest) : all; };
    const int rows = inside(args.rows() - row, SWAP_AB ? width : 16);
    const int columns = inside(args.columns() - column, SWAP_AB ? 16 : width);  //@ wgmma-columns
#if SPLIT
    const Int64 part = BATCHED ? Int64(work.product) * args.parts() + work.split : work.split;
    Sum* partial = reinterpret_cast<Sum*>(args.c) + part * args.rows() * args.columns();
    return {{row, column, work.product}, partial + row * args.columns() + column, args.columns(), rows, columns, {}};
#else
    Result* c = BATCHED ? matrix_of<POINTERS_C != 0>(args.c, args.stride_c, work.product) : args.c;
    return {{row, column, work.product}, c + row * args.ldc + column, args.ldc, rows, columns, scalars};
#endif
  }
};

[[maybe_unused]] DEVICE char* scratch_of_warp(char* shared) {
  return shared + kLayout.scratch_at() + (int(threadIdx.x) / 32 - 4) * kEpilogue.bytes();  //@ wgmma-scratch
}

#if EPILOGUE >= 2
static_assert(!SPLIT && (EPILOGUE == 2 || !SWAP_AB), "C is stored, in rows of C");

// What is laid down and stored together, of a work item: the results of kPartSpan rows of the right operand, or of the last
// ones of an instruction, and of the warp's 16 rows of the left operand (SWAP_AB: of the warpgroup's 64).
constexpr int kPartSpan = SWAP_AB ? kStored.kMostRows : kStored.columns;
constexpr int kPartsOfInstruction = tilewise::layout::ceil_div(WGMMA_N, kPartSpan);  //@ wgmma-parts
constexpr int kParts = kInstructions * kPartsOfInstruction;
template <int NTH_>
struct Part {
  static constexpr int NTH = NTH_, INSTRUCTION = NTH / kPartsOfInstruction;
  static constexpr int FIRST = NTH % kPartsOfInstruction * kPartSpan;  //@ wgmma-part-first
  static constexpr int SPAN = tilewise::layout::smaller(kPartSpan, WGMMA_N - FIRST);
};
// Calls each(Part<0>()), each(Part<1>()), ... A loop would not do: NVRTC does not unroll all loops with waits in them, and
// sums at places that are not constant would lie in memory.
template <int FIRST = 0, class Each>
DEVICE void for_parts(const Each& each) {
  each(Part<FIRST>());
  if constexpr (FIRST + 1 < kParts) for_parts<FIRST + 1>(each);
}

// Two results as a word.
DEVICE unsigned packed(const Result* results) { return unsigned(results[0]) | unsigned(results[1]) << 16; }
DEVICE void unpack(Result* results, unsigned word) {
  results[0] = static_cast<Result>(word);
  results[1] = static_cast<Result>(word >> 16);
}

// Lay down the results of COUNT sums of a lane. Where beta is not 0, C's old elements lie in the same places. One test of
// beta serves all. place(block, left, right): where an element lies, of a block of 16 rows of the left operand and the nth 16
// of the right one; of the last block there may be only 8. first, offset_of: as for apply(). Results of 2 bytes:
template <int COUNT, class At, class OffsetOf>
DEVICE void lay_down_matrices(const Scalars& scalars, const Sum (&sums)[COUNT], const At& place, const Place& first,
                              const OffsetOf& offset_of) {
  const int lane = int(threadIdx.x) % 32;
  // Matrix q of a block: rows of the left operand from 8 (q % 2) on, of the right one from 8 (q / 2) on.
  const auto row = [&](int block) {
    return SWAP_AB ? place(block, lane / 8 % 2 * 8, lane / 16 * 8 + lane % 8) : place(block, lane % 16, lane / 16 * 8);
  };
  constexpr int WHOLE = COUNT / 8 * 8;  // sums of blocks of 16
  Result results[COUNT];
  apply<true>(scalars, sums, results, [&](Result (&old)[COUNT]) {
    UNROLL_ALL
    for (int e = 0; e < WHOLE; e += 8) {
      unsigned words[4];
      load_matrices<4, SWAP_AB != 0>(words, row(e / 8));  //@ wgmma-read-old
      UNROLL_ALL
      for (int w = 0; w < 4; ++w) unpack(old + e + 2 * w, words[w]);
    }
    if constexpr (WHOLE < COUNT) {
      unsigned words[2];
      load_matrices<2, SWAP_AB != 0>(words, row(WHOLE / 8));
      UNROLL_ALL
      for (int w = 0; w < 2; ++w) unpack(old + WHOLE + 2 * w, words[w]);
    }
    warp_barrier();  //@ wgmma-barrier-before-overwriting
  }, first, offset_of);
#if POINTWISE
  warp_barrier();  // an epilogue may have branches, and stmatrix needs the whole warp
#endif
  UNROLL_ALL
  for (int e = 0; e < WHOLE; e += 8) {
    const Result* of = results + e;
    store_matrices<4, SWAP_AB != 0>(row(e / 8), {packed(of), packed(of + 2), packed(of + 4), packed(of + 6)});
  }
  if constexpr (WHOLE < COUNT)
    store_matrices<2, SWAP_AB != 0>(row(WHOLE / 8), {packed(results + WHOLE), packed(results + WHOLE + 2)});
}
// Others: a lane reads the elements that it overwrites itself. Pairs are neighbours in C, but not with SWAP_AB.
template <int COUNT, class At, class OffsetOf>
DEVICE void lay_down_elements(const Scalars& scalars, const Sum (&sums)[COUNT], const At& place, const Place& first,
                              const OffsetOf& offset_of) {
  const int lane = int(threadIdx.x) % 32, group = lane / 4, in_group = lane % 4;
  constexpr int TOGETHER = SWAP_AB ? 1 : 2;
  const auto at = [&](int e) {
    return reinterpret_cast<Result*>(place(e / 8, group + e / 2 % 2 * 8, e / 4 % 2 * 8 + 2 * in_group + e % 2));
  };
  Result results[COUNT];
  apply<true>(scalars, sums, results, [&](Result (&old)[COUNT]) {
    UNROLL_ALL
    for (int e = 0; e < COUNT; e += TOGETHER) {
      Result some[TOGETHER];
      load_vector<TOGETHER>(some, at(e));
      UNROLL_ALL
      for (int t = 0; t < TOGETHER; ++t) old[e + t] = some[t];
    }
  }, first, offset_of);
  UNROLL_ALL
  for (int e = 0; e < COUNT; e += TOGETHER) {
    Result some[TOGETHER];
    UNROLL_ALL
    for (int t = 0; t < TOGETHER; ++t) some[t] = results[e + t];
    store_vector<TOGETHER>(at(e), some);
  }
}
#if POINTWISE
// The sums of a part are taken some blocks at a time, between barriers: the compiler would load the operands of all, for
// which there may be no registers. The more there are, the more loads are in flight.
constexpr int kSpareRegisters = kRegisters.multiplying() - kInstructions * WGMMA_N / 2;
constexpr int kSumsTogether =
    kPointwiseMatrices > 0 ? 8 : (kSpareRegisters >= 104 ? 32 : (kSpareRegisters >= 88 ? 16 : 8));
template <int FIRST_, int COUNT_>
struct Blocks {
  static constexpr int FIRST = FIRST_, COUNT = COUNT_;
};
// Calls each(Blocks<>()) for all of SUMS sums.
template <int SUMS, int FIRST = 0, class Each>
DEVICE void for_blocks(const Each& each) {
  constexpr int COUNT = tilewise::layout::smaller(kSumsTogether, SUMS - FIRST);
  each(Blocks<FIRST, COUNT>());
  if constexpr (FIRST + COUNT < SUMS) for_blocks<SUMS, FIRST + COUNT>(each);
}
#endif

// Lays down the warp's results of a part. to: the warp's buffer, with SWAP_AB the warpgroup's.
template <class Of>
DEVICE void lay_down(char* buffer, const WarpTile& to, const Sums& sums) {
#if SWAP_AB
  const int column = int(threadIdx.x) / 32 % 4 * 16;  // of the buffer: the warp's first one
  char* panel = buffer + column / kStored.columns * kStored.panel_bytes();
  const auto place = [&](int block, int left, int right) {
    const int byte = right * kStored.width() + (column % kStored.columns + left) * int(sizeof(Result));
    return panel + block * 16 * kStored.width() + swizzled<kStored.width()>(byte);  //@ wgmma-place-swapped
  };
#else
  const auto place = [&](int block, int left, int right) {
    const int byte = (left * Of::SPAN + block * 16 + right) * int(sizeof(Result));
    return buffer + swizzled<kStored.swizzle(Of::SPAN)>(byte);  //@ wgmma-place-result
  };
#endif
  Sum of_part[Of::SPAN / 2];
  UNROLL_ALL
  for (int e = 0; e < Of::SPAN / 2; ++e) of_part[e] = sums[Of::INSTRUCTION][Of::FIRST / 2 + e];
  const int lane = int(threadIdx.x) % 32;
  const Place first = to.place(Of::INSTRUCTION, lane / 4, Of::FIRST + lane % 4 * 2);
  const auto offset_of = [](int e) {
    const int left = e / 2 % 2 * 8, right = e / 4 * 8 + e % 2;
    return SWAP_AB ? Offset{right, left} : Offset{left, right};
  };
  const auto lay = [&](const auto& some, const auto& place_of_block, const Place& from) {
    if constexpr (sizeof(Result) == 2)
      lay_down_matrices(to.scalars, some, place_of_block, from, offset_of);
    else
      lay_down_elements(to.scalars, some, place_of_block, from, offset_of);
  };
#if POINTWISE
  for_blocks<Of::SPAN / 2>([&](auto blocks) {
    constexpr int FIRST = decltype(blocks)::FIRST, COUNT = decltype(blocks)::COUNT;
    Sum some[COUNT];
    UNROLL_ALL
    for (int e = 0; e < COUNT; ++e) some[e] = of_part[FIRST + e];
    const auto of_block = [&](int nth, int left, int right) { return place(FIRST / 8 + nth, left, right); };
    const Offset from = offset_of(FIRST);
    lay(some, of_block, first.below(from.down).beside(from.right));
  });
#else
  lay(of_part, place, first);
#endif
}

#if EPILOGUE == 2
constexpr int kStorer = SWAP_AB ? kWarpgroup : 32;  // threads that share two buffers; the first one issues copies by TMA

DEVICE bool issues_stores() { return int(threadIdx.x) % kStorer == 0; }

// Buffers, and the mbarriers of loads into them, take turns. `stored`: the number of stores so far, of all work items.
DEVICE char* buffer_of(char* shared, unsigned stored) {
  constexpr int BYTES = kStorer / 32 * kStored.bytes();
  char* buffers = shared + kLayout.scratch_at() + (int(threadIdx.x) - kWarpgroup) / kStorer * kStored.kBuffers * BYTES;
  return buffers + stored % kStored.kBuffers * BYTES;  //@ wgmma-buffer
}
DEVICE Mbarrier* loaded_of(char* shared, unsigned stored) {
  return loads_of(shared) + (int(threadIdx.x) - kWarpgroup) / kStorer * kStored.kBuffers + stored % kStored.kBuffers;
}

// Calls each(map, column, row, offset) for the boxes of a part, at `offset` of its buffer.
template <class Of, class Each>
DEVICE void for_boxes(const WarpTile& to, const Each& each) {
  const int left = to.first_left + to.left_of(Of::INSTRUCTION);  // SWAP_AB: of the warpgroup's first warp
  const int right = to.right_of(Of::INSTRUCTION) + Of::FIRST;
#if SWAP_AB
  UNROLL_ALL
  for (int row = 0; row < Of::SPAN; row += kStored.rows) {
    UNROLL_ALL
    for (int p = 0; p < kStored.panels(); ++p)
      each(to.args.c_maps[0], to.work.column + left + p * kStored.columns, to.work.row + right + row,
           p * kStored.panel_bytes() + row * kStored.width());
  }
#else
  const TensorMap& map = to.args.c_maps[Of::SPAN == kPartSpan ? 0 : kStored.maps() - 1];
  each(map, to.work.column + right, to.work.row + left, 0);
#endif
}

// Starts the load of C's old elements of a part into the buffer where its results will be laid down. Called by the thread
// that issues stores, after the last ordinary access of the buffer and a fence_proxy_async() by each thread.
// stored: the number of stores before that of the part.
template <class Of>
DEVICE void load_old(const WarpTile& to, char* shared, unsigned stored) {
  char* buffer = buffer_of(shared, stored);
  Mbarrier* loaded = loaded_of(shared, stored);
  mbarrier_expect_tx(loaded, Of::SPAN * (kStorer / 2) * int(sizeof(Result)));
  for_boxes<Of>(to, [&](const TensorMap& map, int column, int row, int offset) {
#if BATCHED
    load_tile(buffer + offset, map, column, row, to.work.product, loaded);
#else
    load_tile(buffer + offset, map, column, row, loaded);  //@ wgmma-load-old
#endif
  });
}

// Starts the loads of the first parts of a work item where beta is not 0: for both buffers.
DEVICE void load_first(const WarpTile& to, char* shared, unsigned stored) {
  if (to.scalars.beta == Sum(0) || !issues_stores()) return;
  stores_read<0>();  //@ wgmma-wait-buffer-first
  load_old<Part<0>>(to, shared, stored);
  if constexpr (kParts > 1) load_old<Part<1>>(to, shared, stored + 1);
}

// Stores a part by TMA. wait(): the threads that share a buffer wait for one another.
template <class Of, class Wait>
DEVICE void store_part_by_tma(const WarpTile& to, const Sums& sums, char* shared, unsigned& stored, const Wait& wait) {
  const bool blends = to.scalars.beta != Sum(0);
  char* buffer = buffer_of(shared, stored);
  if (issues_stores()) {
    if (!blends) {
      stores_read<kStored.kBuffers - 1>();  //@ wgmma-wait-buffer
    } else if constexpr (Of::NTH > 0 && Of::NTH + 1 < kParts) {
      stores_read<0>();  //@ wgmma-wait-buffer-old
      load_old<Part<Of::NTH + 1>>(to, shared, stored + 1);
    }
  }
  wait();
  if (blends) mbarrier_wait(loaded_of(shared, stored), int(stored / kStored.kBuffers % 2));  //@ wgmma-wait-old
  lay_down<Of>(buffer, to, sums);
  fence_proxy_async();  //@ wgmma-fence-stores
  wait();  //@ wgmma-meeting
  if (issues_stores()) {
    for_boxes<Of>(to, [&](const TensorMap& map, int column, int row, int offset) {
#if BATCHED
      store_tile(map, column, row, to.work.product, buffer + offset);
#else
      store_tile(map, column, row, buffer + offset);
#endif
    });
    stores_commit();
  }
  ++stored;
}

// stored: the number of stores so far, of all work items.
DEVICE void store_by_tma(const WarpTile& to, Sums& sums, char* shared, unsigned& stored) {
  if (to.scalars.alpha == Sum(0)) clear(sums);  // drops NaN, too; cheaper than a choice for each sum
#if SWAP_AB
  // The four warps of a warpgroup wait for one another. Twice for each store: the parity returns to 0.
  Mbarrier* meeting = meetings(shared) + (int(threadIdx.x) / kWarpgroup - 1);
  int parity = 0;
  const auto wait = [&] {
    mbarrier_arrive_warp(meeting);
    mbarrier_wait(meeting, parity);
    parity ^= 1;
  };
#else
  const auto wait = [] { warp_barrier(); };
#endif
  for_parts([&](auto part) { store_part_by_tma<decltype(part)>(to, sums, shared, stored, wait); });
}
#else
// Copies rows of C to a buffer, or a buffer's rows to C. A row of C is read and written in words of 4 bytes, one by each
// lane; where it is not aligned to words, the first word has only some elements of the row, and the row's last elements
// are copied one by one.
template <int COLUMNS>
struct BufferedRows {
  static constexpr int WORD = 4 / int(sizeof(Result)), WORDS = COLUMNS / WORD;
  const Output& out;
  char* buffer;

  DEVICE_MEMBER Result& result(int row, int column) const {
    const int byte = (row * COLUMNS + column) * int(sizeof(Result));
    return *reinterpret_cast<Result*>(buffer + swizzled<kStored.swizzle(COLUMNS)>(byte));
  }
  static DEVICE_MEMBER int shift_of(const Result* row) {
    return static_cast<int>(reinterpret_cast<unsigned long long>(row) / sizeof(Result) % WORD);  //@ wgmma-row-shift
  }
  // Calls each(row, column) for this lane's of a row's last elements that are in no word; the lane is the row.
  template <class Each>
  DEVICE_MEMBER void for_last(const Each& each) const {
    const int lane = int(threadIdx.x) % 32;
    if (lane >= kStored.rows || lane >= out.rows) return;
    Result* row = out.row(lane);
    const int shift = shift_of(row);
    UNROLL_ALL
    for (int e = 1; e < WORD; ++e) {
      const int column = COLUMNS - e;
      if (shift >= e && column < out.columns) each(row + column, result(lane, column));  //@ wgmma-row-last
    }
  }
  DEVICE_MEMBER void store() const {
    const int lane = int(threadIdx.x) % 32;
    UNROLL_BY(2)
    for (int row = 0; row < kStored.rows; ++row) {
      if (row >= out.rows) break;
      if (WORDS < 32 && lane >= WORDS) break;
      Result* to = out.row(row);
      const int first = lane * WORD - shift_of(to);
      Result word[WORD];
      UNROLL_ALL
      for (int e = 0; e < WORD; ++e) word[e] = result(row, first + e < 0 ? 0 : first + e);
      store_part<WORD>(to + first, word, -first, out.columns - first);
    }
    for_last([](Result* c, const Result& laid_down) { *c = laid_down; });
  }
  DEVICE_MEMBER void load() const {
    constexpr int TOGETHER = 4;  // rows in flight
    const int lane = int(threadIdx.x) % 32;
    UNROLL_BY(1)
    for (int row = 0; row < kStored.rows; row += TOGETHER) {
      if (row >= out.rows) break;
      if (WORDS < 32 && lane >= WORDS) break;
      Result words[TOGETHER][WORD];
      UNROLL_ALL
      for (int r = 0; r < TOGETHER; ++r) {
        const Result* from = out.row(row + r);
        const int first = lane * WORD - shift_of(from);
        load_part<WORD>(words[r], from + first, -first, row + r < out.rows ? out.columns - first : -first);  //@ wgmma-row-old
      }
      UNROLL_ALL
      for (int r = 0; r < TOGETHER; ++r) {
        const int first = lane * WORD - shift_of(out.row(row + r));
        UNROLL_ALL
        for (int e = 0; e < WORD; ++e)
          if (first + e >= 0) result(row + r, first + e) = words[r][e];
      }
    }
    for_last([](const Result* c, Result& old) { old = *c; });
  }
};

DEVICE void store_rows(const WarpTile& to, Sums& sums, char* shared) {
  if (to.scalars.alpha == Sum(0)) clear(sums);
  // Addresses are not computed before the main loop, which has no registers for them.
  char* scratch = reinterpret_cast<char*>(opaque_shared_pointer(reinterpret_cast<float*>(scratch_of_warp(shared))));
  for_parts([&](auto part) {
    typedef decltype(part) Of;
    char* buffer = scratch + Of::NTH % 2 * kStored.bytes();
    const Output out = to.part(Of::INSTRUCTION, Of::FIRST, Of::SPAN);
    const BufferedRows<Of::SPAN> rows = {out, buffer};
    if (to.scalars.beta != Sum(0)) {
      rows.load();
      warp_barrier();  //@ wgmma-rows-loaded
    }
    lay_down<Of>(buffer, to, sums);
    warp_barrier();  //@ wgmma-rows-barrier
    rows.store();
  });
  warp_barrier();  // the next work item begins with the same buffer
}
#endif
#elif EPILOGUE == 1
DEVICE void store_staged(const WarpTile& to, const Sums& sums, char* shared) {
  const int lane = int(threadIdx.x) % 32, group = lane / 4, in_group = lane % 4;
  constexpr int ACROSS = StagedSums::STORES, ROW = kScratch.row_stride(), STORES = kScratch.rows * ACROSS;
  Sum* scratch = reinterpret_cast<Sum*>(scratch_of_warp(shared));
  UNROLL_ALL
  for (int i = 0; i < kInstructions; ++i) {
    UNROLL_ALL
    for (int first = 0; first < WGMMA_N; first += kStagedColumns) {
      warp_barrier();  //@ wgmma-barrier-before-staging
      UNROLL_ALL
      for (int j = 0; j < kStagedColumns / 8; ++j) {
        UNROLL_ALL
        for (int e = 0; e < 4; ++e) {
          const int left = group + e / 2 * 8, right = 8 * j + 2 * in_group + e % 2;
          scratch[SWAP_AB ? right * ROW + StagedSums::slot(left) : left * ROW + StagedSums::slot(right)] =
              sums[i][4 * (first / 8 + j) + e];
        }
      }
      warp_barrier();
      const Output out = to.part(i, first, kStagedColumns);
      UNROLL_BY(1)
      for (int n = 0; n < STORES; n += 32) {
        const int s = n + lane, row = s / ACROSS;
        if (STORES % 32 > 0 && s >= STORES) break;
        if (row < out.rows) StagedSums::write(out, row, s % ACROSS, scratch + row * ROW);
      }
    }
  }
}
#else
DEVICE void store_registers(const WarpTile& to, const Sums& sums) {
  const int lane = int(threadIdx.x) % 32, group = lane / 4, in_group = lane % 4;
  UNROLL_ALL
  for (int i = 0; i < kInstructions; ++i) {
    const Output out = to.part(i, 0, WGMMA_N);
    UNROLL_ALL
    for (int half = 0; half < 2; ++half) {
      const int left = half * 8 + group;
#if SWAP_AB
      UNROLL_ALL
      for (int j = 0; j < WGMMA_N / 8; ++j) {
        UNROLL_ALL
        for (int e = 0; e < 2; ++e) {
          const int right = 8 * j + 2 * in_group + e;
          if (right < out.rows) out.write<1>(out.row(right), right, left, {sums[i][4 * j + 2 * half + e]});
        }
      }
#else
      if (left >= out.rows) continue;
      Output::Out* row = out.row(left);
      UNROLL_ALL
      for (int j = 0; j < WGMMA_N / 8; ++j) {
        const Sum pair[2] = {sums[i][4 * j + 2 * half], sums[i][4 * j + 2 * half + 1]};
        const int right = 8 * j + 2 * in_group;
        if constexpr (VECTOR_C > 1) {
          out.write<2>(row, left, right, pair);
        } else {
          out.write<1>(row, left, right, {pair[0]});
          out.write<1>(row, left, right + 1, {pair[1]});
        }
      }
#endif
    }
  }
}
#endif

#if STREAM_K
// Stores the sums of a tile that several clusters share, all of them, for the stream_k step. partial: of the block's
// first row and column; rows have `ld` sums. first_left: WarpTile's.
DEVICE void store_partial(Sum* partial, int ld, const Sums& sums, int first_left) {
  const int lane = int(threadIdx.x) % 32, group = lane / 4, in_group = lane % 4;
  UNROLL_ALL
  for (int i = 0; i < kInstructions; ++i) {
    UNROLL_ALL
    for (int half = 0; half < 2; ++half) {
      const int left = first_left + WarpTile::left_of(i) + half * 8 + group;  //@ wgmma-partial-row
      const int right = WarpTile::right_of(i) + 2 * in_group;
      Sum* to = opaque_pointer(partial + (SWAP_AB ? left + right * ld : left * ld + right));
      UNROLL_ALL
      for (int j = 0; j < WGMMA_N / 8; ++j) {
        const Sum pair[2] = {sums[i][4 * j + 2 * half], sums[i][4 * j + 2 * half + 1]};
        if constexpr (SWAP_AB) {
          to[8 * j * ld] = pair[0];
          to[(8 * j + 1) * ld] = pair[1];
        } else {
          store_vector<2>(to + 8 * j, pair);
        }
      }
    }
  }
}
#endif
