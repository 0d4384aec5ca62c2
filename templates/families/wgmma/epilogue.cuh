// wgmma's epilogues: how the sums in a warpgroup's registers become results in C. See wgmma.cu.
#pragma once
#include "families/wgmma/ahead_operands.cuh"

#if EPILOGUE >= 2
// Two results as a word.
DEVICE unsigned packed(const Result* results) { return unsigned(results[0]) | unsigned(results[1]) << 16; }
DEVICE void unpack(Result* results, unsigned word) {
  results[0] = static_cast<Result>(word);
  results[1] = static_cast<Result>(word >> 16);
}

// COUNT sums of a lane are those of blocks of 16 rows of the left operand and the nth 16 of the right one; the last block may
// have only 8 of these. place(block, left, right): where the result of an element lies, or its old value. Results of 2 bytes
// lie there as matrices of 8 x 8: where a lane's row of the matrices of a block lies.
template <class At>
DEVICE char* matrices_row(const At& place, int block) {
  const int lane = int(threadIdx.x) % 32;
  // Matrix q of a block: rows of the left operand from 8 (q % 2) on, of the right one from 8 (q / 2) on.
  return SWAP_AB ? place(block, lane / 8 % 2 * 8, lane / 16 * 8 + lane % 8) : place(block, lane % 16, lane / 16 * 8);
}
// Of other results a lane has its own. Pairs are neighbours in C, but not with SWAP_AB.
template <class At>
DEVICE Result* element_at(const At& place, int e) {
  const int lane = int(threadIdx.x) % 32, group = lane / 4, in_group = lane % 4;
  return reinterpret_cast<Result*>(place(e / 8, group + e / 2 % 2 * 8, e / 4 % 2 * 8 + 2 * in_group + e % 2));
}

// Reads what lies in the places of a lane's results.
template <int COUNT, class At>
DEVICE void read_laid_down(Result (&old)[COUNT], const At& place) {
  if constexpr (sizeof(Result) == 2) {
    constexpr int WHOLE = COUNT / 8 * 8;  // sums of blocks of 16
    UNROLL_ALL
    for (int e = 0; e < WHOLE; e += 8) {
      unsigned words[4];
      load_matrices<4, SWAP_AB != 0>(words, matrices_row(place, e / 8));  //@ wgmma-read-old
      UNROLL_ALL
      for (int w = 0; w < 4; ++w) unpack(old + e + 2 * w, words[w]);
    }
    if constexpr (WHOLE < COUNT) {
      unsigned words[2];
      load_matrices<2, SWAP_AB != 0>(words, matrices_row(place, WHOLE / 8));
      UNROLL_ALL
      for (int w = 0; w < 2; ++w) unpack(old + WHOLE + 2 * w, words[w]);
    }
    warp_barrier();  //@ wgmma-barrier-before-overwriting
  } else {
    constexpr int TOGETHER = SWAP_AB ? 1 : 2;
    UNROLL_ALL
    for (int e = 0; e < COUNT; e += TOGETHER) {
      Result some[TOGETHER];
      load_vector<TOGETHER>(some, element_at(place, e));
      UNROLL_ALL
      for (int t = 0; t < TOGETHER; ++t) old[e + t] = some[t];
    }
  }
}
// Lays down the results of COUNT sums of a lane. Where beta is not 0, C's old elements lie in the same places. One test of beta
// serves all. first, offset_of: as for apply().
template <SumsAre ARE, int COUNT, class At, class First, class OffsetOf>
DEVICE void lay_down_results(const Scalars& scalars, const Sum (&sums)[COUNT], const At& place, const First& first,
                             const OffsetOf& offset_of) {
  const auto read_old = [&](Result (&old)[COUNT]) { read_laid_down(old, place); };
  Result results[COUNT];
  apply<ARE>(scalars, sums, results, read_old, with_old(first, read_old), offset_of);
  if constexpr (sizeof(Result) == 2) {
#if POINTWISE
    warp_barrier();  // an epilogue may have branches, and stmatrix needs the whole warp
#endif
    constexpr int WHOLE = COUNT / 8 * 8;
    UNROLL_ALL
    for (int e = 0; e < WHOLE; e += 8) {
      const Result* of = results + e;
      store_matrices<4, SWAP_AB != 0>(matrices_row(place, e / 8),
                                      {packed(of), packed(of + 2), packed(of + 4), packed(of + 6)});
    }
    if constexpr (WHOLE < COUNT)
      store_matrices<2, SWAP_AB != 0>(matrices_row(place, WHOLE / 8),
                                      {packed(results + WHOLE), packed(results + WHOLE + 2)});
  } else {
    constexpr int TOGETHER = SWAP_AB ? 1 : 2;
    UNROLL_ALL
    for (int e = 0; e < COUNT; e += TOGETHER) {
      Result some[TOGETHER];
      UNROLL_ALL
      for (int t = 0; t < TOGETHER; ++t) some[t] = results[e + t];
      store_vector<TOGETHER>(element_at(place, e), some);
    }
  }
}
#if POINTWISE
// The sums of a part are taken some blocks at a time, between barriers: the compiler would load the operands of all, for
// which there may be no registers. The more there are, the more loads are in flight.
constexpr int kSpareRegisters = kRegisters.multiplying() - kInstructions * WGMMA_N / 2;
constexpr int kSumsTogether =
    kPointwiseMatrices > (STAGED_OPERAND >= 0) ? 8 : (kSpareRegisters >= 104 ? 32 : (kSpareRegisters >= 88 ? 16 : 8));
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

#if STAGED_OPERAND >= 0
// Copies the elements of matrix STAGED_OPERAND to where the warp's results of a part will lie.
template <class Of, class At>
DEVICE void lay_down_operand(const WarpTile& to, const At& place) {
  constexpr int ACROSS = SWAP_AB ? 16 : Of::SPAN, ELEMENTS = 16 * Of::SPAN;  // in a row of C, and in all
  constexpr int TOGETHER = 4;  // loads in flight
  const int lane = int(threadIdx.x) % 32;
  const Place begin = to.place(Of::INSTRUCTION, 0, Of::FIRST);
  const Offset last = to.args.pointwise.last_from(begin);
  const PointwiseOperand& of = to.args.pointwise.of[STAGED_OPERAND];
  const Result* from = opaque_pointer(static_cast<const Result*>(of.data) + of.at<OVER_ELEMENTS>(begin));
  UNROLL_BY(1)
  for (int n = lane; n < ELEMENTS; n += 32 * TOGETHER) {
    Result some[TOGETHER];
    UNROLL_ALL
    for (int t = 0; t < TOGETHER; ++t) {
      const int down = (n + 32 * t) / ACROSS, right = (n + 32 * t) % ACROSS;
      some[t] = down <= last.down && right <= last.right ? from[down * of.ld + right] : Result(0);
    }
    UNROLL_ALL
    for (int t = 0; t < TOGETHER; ++t) {
      const int down = (n + 32 * t) / ACROSS, right = (n + 32 * t) % ACROSS;
      char* at = SWAP_AB ? place(down / 16, right, down % 16) : place(right / 16, down, right % 16);
      *reinterpret_cast<Result*>(at) = some[t];
    }
  }
  warp_barrier();  //@ wgmma-operand-laid-down
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
#if POINTWISE
  if constexpr (Of::NTH + 1 < kParts) to.ahead.template load_right<Part<Of::NTH + 1>>(to);
#if STAGED_OPERAND >= 0
  // The buffer has room for C's old elements or for the operand's.
  if (to.scalars.beta != Sum(0)) {
    for_blocks<Of::SPAN / 2>([&](auto blocks) {
      constexpr int FIRST = decltype(blocks)::FIRST, COUNT = decltype(blocks)::COUNT;
      Result old[COUNT];
      read_laid_down(old, [&](int nth, int left, int right) { return place(FIRST / 8 + nth, left, right); });
      UNROLL_ALL
      for (int e = 0; e < COUNT; ++e) of_part[FIRST + e] = blended(to.scalars, of_part[FIRST + e], old[e]);
    });
    warp_barrier();  //@ wgmma-old-read
  } else {
    UNROLL_ALL
    for (int e = 0; e < Of::SPAN / 2; ++e) of_part[e] = scaled(to.scalars, of_part[e]);
  }
  if (!to.ahead.by_tma) lay_down_operand<Of>(to, place);
  constexpr SumsAre ARE = BLENDED;
#else
  constexpr SumsAre ARE = CLEARED;
#endif
  for_blocks<Of::SPAN / 2>([&](auto blocks) {
    constexpr int FIRST = decltype(blocks)::FIRST, COUNT = decltype(blocks)::COUNT;
    Sum some[COUNT];
    UNROLL_ALL
    for (int e = 0; e < COUNT; ++e) some[e] = of_part[FIRST + e];
    const auto of_block = [&](int nth, int left, int right) { return place(FIRST / 8 + nth, left, right); };
    const Offset from = offset_of(FIRST);
    const BlockPlace at = {first.below(from.down).beside(from.right), to.ahead, Of::INSTRUCTION / kAcross,
                           Of::NTH % 2, FIRST * 2};  //@ wgmma-ahead-turn
    lay_down_results<ARE>(to.scalars, some, of_block, at, offset_of);
  });
#else
  lay_down_results<CLEARED>(to.scalars, of_part, place, first, offset_of);
#endif
}

#if EPILOGUE == 2
constexpr int kStorer = SWAP_AB ? kWarpgroup : 32;  // threads that share two buffers; the first one issues copies by TMA

DEVICE bool issues_stores() { return int(threadIdx.x) % kStorer == 0; }

// The two buffers of the threads that share them, and the mbarriers of loads into these. They take turns. warp: warp_number().
struct StoreBuffers {
  static constexpr int BYTES = kStorer / 32 * kStored.bytes();
  char* buffers;
  Mbarrier* loads;
  Mbarrier* meeting;  // SWAP_AB: of the four warps that share the buffers
  unsigned stored = 0;  // so far, of all work items

  DEVICE_MEMBER StoreBuffers(char* shared, int warp) {
    const int storer = SWAP_AB ? warp / 4 - 1 : warp - 4;
    buffers = shared + kLayout.scratch_at() + storer * kStored.kBuffers * BYTES;
    loads = loads_of(shared) + storer * kStored.kBuffers;
    meeting = meetings(shared) + storer;
  }
  // Of the next store but `more`.
  DEVICE_MEMBER char* buffer(unsigned more = 0) const {
    return buffers + (stored + more) % kStored.kBuffers * BYTES;  //@ wgmma-buffer
  }
  DEVICE_MEMBER Mbarrier* loaded(unsigned more = 0) const { return loads + (stored + more) % kStored.kBuffers; }
  DEVICE_MEMBER int loaded_parity() const { return int(stored / kStored.kBuffers % 2); }
};

// Calls each(map, column, row, offset) for the boxes of a part, at `offset` of its buffer.
template <class Of, class Each>
DEVICE void for_boxes(const WarpTile& to, const TensorMap (&maps)[kStored.maps()], const Each& each) {
  const int left = to.first_left + to.left_of(Of::INSTRUCTION);  // SWAP_AB: of the warpgroup's first warp
  const int right = to.right_of(Of::INSTRUCTION) + Of::FIRST;
#if SWAP_AB
  UNROLL_ALL
  for (int row = 0; row < Of::SPAN; row += kStored.rows) {
    UNROLL_ALL
    for (int p = 0; p < kStored.panels(); ++p)
      each(maps[0], to.work.column + left + p * kStored.columns, to.work.row + right + row,
           p * kStored.panel_bytes() + row * kStored.width());
  }
#else
  const TensorMap& map = maps[Of::SPAN == kPartSpan ? 0 : kStored.maps() - 1];
  each(map, to.work.column + right, to.work.row + left, 0);
#endif
}

// Starts the load of a part of C's old elements, or of the epilogue's matrix, into the buffer where its results will be laid
// down. Called by the thread that issues stores, after the last ordinary access of the buffer and a fence_proxy_async() by each thread.
// The part is stored after `more` others.
template <class Of>
DEVICE void load_old(const WarpTile& to, const StoreBuffers& buffers, unsigned more) {
  char* buffer = buffers.buffer(more);
  Mbarrier* loaded = buffers.loaded(more);
  mbarrier_expect_tx(loaded, Of::SPAN * (kStorer / 2) * int(sizeof(Result)));
  const auto load = [&](const TensorMap& map, int column, int row, int offset, [[maybe_unused]] int product) {
#if BATCHED
    load_tile(buffer + offset, map, column, row, product, loaded);
#else
    load_tile(buffer + offset, map, column, row, loaded);  //@ wgmma-load-old
#endif
  };
#if STAGED_OPERAND >= 0
  if (to.ahead.by_tma) {
    const int product = to.args.pointwise.of[STAGED_OPERAND].stride == 0 ? 0 : to.work.matrix();  //@ wgmma-staged-product
    for_boxes<Of>(to, to.args.operand_maps, [&](const TensorMap& map, int column, int row, int offset) {
      load(map, column, row, offset, product);
    });
    return;
  }
#endif
  for_boxes<Of>(to, to.args.c_maps, [&](const TensorMap& map, int column, int row, int offset) {
    load(map, column, row, offset, to.work.matrix());
  });
}

// Starts the loads of the first parts of a work item, if there are any: for both buffers.
DEVICE void load_first(const WarpTile& to, const StoreBuffers& buffers) {
  if (!to.loads() || !issues_stores()) return;
  stores_read<0>();  //@ wgmma-wait-buffer-first
  load_old<Part<0>>(to, buffers, 0);
  if constexpr (kParts > 1) load_old<Part<1>>(to, buffers, 1);
}

#if GROUPED
// Rows of a part that are the product's: TMA would store all of the part's.
template <class Of>
DEVICE Int64 rows_of_product(const WarpTile& to) {
  const int left = to.first_left + to.left_of(Of::INSTRUCTION), right = to.right_of(Of::INSTRUCTION) + Of::FIRST;
  return to.work.row_end - to.work.row - (SWAP_AB ? right : left);  //@ wgmma-rows-of-product
}
// Stores the first `rows` of a part in chunks of 16 bytes, by all threads that share its buffer.
template <class Of>
DEVICE void store_chunks(const WarpTile& to, const char* buffer, Int64 rows) {
  constexpr int CHUNK = 16 / int(sizeof(Result)), COLUMNS = SWAP_AB ? 64 : Of::SPAN, ACROSS = COLUMNS / CHUNK;
  const int thread = int(threadIdx.x) % kStorer;
  const int left = to.first_left - (SWAP_AB ? thread / 32 * 16 : 0) + to.left_of(Of::INSTRUCTION);
  const int right = to.right_of(Of::INSTRUCTION) + Of::FIRST;
  const Int64 row = to.work.row + (SWAP_AB ? right : left), column = to.work.column + (SWAP_AB ? left : right);
  Result* c = to.args.c + to.work.matrix() * to.args.stride_c + row * to.args.ldc + column;
  UNROLL_BY(1)
  for (int i = thread; i < rows * ACROSS; i += kStorer) {
    const int down = i / ACROSS, across = i % ACROSS * CHUNK;
    if (column + across >= to.args.columns()) continue;
    int byte;
    if constexpr (SWAP_AB) {
      const int in_panel = down * kStored.width() + across % kStored.columns * int(sizeof(Result));
      byte = across / kStored.columns * kStored.panel_bytes() + swizzled<kStored.width()>(in_panel);
    } else {
      byte = swizzled<kStored.swizzle(Of::SPAN)>((down * COLUMNS + across) * int(sizeof(Result)));
    }
    Result chunk[CHUNK];
    load_vector<CHUNK>(chunk, reinterpret_cast<const Result*>(buffer + byte));
    store_vector<CHUNK>(c + down * to.args.ldc + across, chunk);  //@ wgmma-store-chunk
  }
}
#endif

// Stores a part by TMA. wait(): the threads that share a buffer wait for one another.
template <class Of, class Wait>
DEVICE void store_part_by_tma(const WarpTile& to, const Sums& sums, StoreBuffers& buffers, const Wait& wait) {
  const bool loads = to.loads();
  char* buffer = buffers.buffer();
  if (issues_stores()) {
    if (!loads) {
      stores_read<kStored.kBuffers - 1>();  //@ wgmma-wait-buffer
    } else if constexpr (Of::NTH > 0 && Of::NTH + 1 < kParts) {
      stores_read<0>();  //@ wgmma-wait-buffer-old
      load_old<Part<Of::NTH + 1>>(to, buffers, 1);
    }
  }
  wait();
  if (loads) mbarrier_wait(buffers.loaded(), buffers.loaded_parity());  //@ wgmma-wait-old
  lay_down<Of>(buffer, to, sums);
  fence_proxy_async();  //@ wgmma-fence-stores
  wait();  //@ wgmma-meeting
#if GROUPED
  const Int64 rows = rows_of_product<Of>(to);
  const bool whole = rows >= (SWAP_AB ? Of::SPAN : kStored.rows);
  if (!whole) {
    store_chunks<Of>(to, buffer, rows);
    fence_proxy_async();  // before a load by TMA into the buffer
    wait();  //@ wgmma-chunks-read
    if (SWAP_AB) wait();  // an even number of times for each part
  }
#else
  constexpr bool whole = true;
#endif
  if (issues_stores() && whole) {
    for_boxes<Of>(to, to.args.c_maps, [&](const TensorMap& map, int column, int row, int offset) {
#if BATCHED
      store_tile(map, column, row, to.work.matrix(), buffer + offset);
#else
      store_tile(map, column, row, buffer + offset);
#endif
    });
    stores_commit();
  }
#if GROUPED
  if (issues_stores() && !whole) stores_commit();  // none: waits count groups
#endif
  ++buffers.stored;
}

DEVICE void store_by_tma(const WarpTile& to, Sums& sums, StoreBuffers& buffers) {
  if (to.scalars.alpha == Sum(0)) clear(sums);  // drops NaN, too; cheaper than a choice for each sum
#if SWAP_AB
  // The four warps of a warpgroup wait for one another. Twice for each store: the parity returns to 0.
  int parity = 0;
  const auto wait = [&] {
    mbarrier_arrive_warp(buffers.meeting);
    mbarrier_wait(buffers.meeting, parity);
    parity ^= 1;
  };
#else
  const auto wait = [] { warp_barrier(); };
#endif
  for_parts([&](auto part) { store_part_by_tma<decltype(part)>(to, sums, buffers, wait); });
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
