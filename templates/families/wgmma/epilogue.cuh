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
    return {partial + row * args.columns() + column, args.columns(), rows, columns, {}};
#else
    Result* c = BATCHED ? matrix_of<POINTERS_C != 0>(args.c, args.stride_c, work.product) : args.c;
    return {c + row * args.ldc + column, args.ldc, rows, columns, scalars};
#endif
  }
};

[[maybe_unused]] DEVICE char* scratch_of_warp(char* shared) {
  return shared + kLayout.scratch_at() + (int(threadIdx.x) / 32 - 4) * kEpilogue.bytes();  //@ wgmma-scratch
}

#if EPILOGUE >= 2
static_assert(!SPLIT && (EPILOGUE == 2 || !SWAP_AB), "C is stored, in rows of C");

// Calls each(scalars) in code of its own for beta = 0: one test of beta serves all sums.
template <class Each>
DEVICE void with_scalars(const Scalars& scalars, const Each& each) {
  if (scalars.beta == Sum(0))
    each(Scalars{scalars.alpha, Sum(0)});
  else
    each(scalars);
}

// Reads c[0] and c[next], of which the first `inside` are inside.
DEVICE void read_pair(Result (&old)[2], const Result* c, [[maybe_unused]] Int64 next, int inside) {
#if EPILOGUE == 2 && !SWAP_AB
  load_part<2>(old, c, 0, inside);  // C's alignment allows it
#else
  UNROLL_ALL
  for (int e = 0; e < 2; ++e)
    if (e < inside) old[e] = c[e * next];
#endif
}

#if SWAP_AB
// Lays down the results of the warp's 16 columns of C, and of up to kMostRows rows: those of the right operand from
// `first` on, of one instruction. `to`: the warpgroup's buffer.
DEVICE void lay_down(char* to, const Output& out, const Sum (&sums)[WGMMA_N / 2], int first) {
  const int lane = int(threadIdx.x) % 32, group = lane / 4, in_group = lane % 4;
  const int column = int(threadIdx.x) / 32 % 4 * 16;  // of the buffer
  char* panel = to + column / kStored.columns * kStored.panel_bytes();
  const auto place = [&](int right, int left) {
    const int byte = (column % kStored.columns + left) * int(sizeof(Result));
    return swizzled<kStored.width()>(right * kStored.width() + byte);  //@ wgmma-place-swapped
  };
  with_scalars(out.scalars, [&](const Scalars& scalars) {
    const auto results_at = [&](Result (&results)[2], int j, int half) {
      const int right = 8 * j + 2 * in_group, left = group + 8 * half;
      const int inside = left < out.columns ? out.rows - right : 0;
      const int sum = 4 * (first / 8 + j) + 2 * half;
      apply<true>(scalars, {sums[sum], sums[sum + 1]}, results,
                  [&](Result (&old)[2]) { read_pair(old, out.row(right) + left, out.ld, inside); });
    };
    constexpr int TOGETHER = sizeof(Result) == 2 ? 2 : 1;  // blocks of 8 rows
    UNROLL_ALL
    for (int j = 0; j < kStored.kMostRows / 8; j += TOGETHER) {
      if (first + 8 * j >= WGMMA_N) break;
      if constexpr (sizeof(Result) == 2) {
        unsigned words[4];
        UNROLL_ALL
        for (int q = 0; q < 4; ++q) {
          if (first + 8 * (j + q / 2) >= WGMMA_N) break;
          Result results[2];
          results_at(results, j + q / 2, q % 2);
          copy_bits(words[q], results);
        }
        // Matrix q: rows 8 (q / 2) on, columns 8 (q % 2) on.
        char* row = panel + place(lane / 16 * 8 + lane % 8, lane / 8 % 2 * 8) + j * 8 * kStored.width();
        if (first + 8 * (j + 1) < WGMMA_N)
          store_matrices<4, true>(row, words);
        else
          store_matrices<2, true>(row, {words[0], words[1]});
      } else {
        UNROLL_ALL
        for (int half = 0; half < 2; ++half) {
          Result results[2];
          results_at(results, j, half);
          UNROLL_ALL
          for (int e = 0; e < 2; ++e)
            *reinterpret_cast<Result*>(panel + place(8 * j + 2 * in_group + e, group + 8 * half)) = results[e];
        }
      }
    }
  });
}
#else
// A number of columns, as a type.
template <int COLUMNS_>
struct ColumnsOf {
  static constexpr int COLUMNS = COLUMNS_;
};
// Calls each(ColumnsOf<n>, first) for the n columns of the instruction from `first` on that are stored together.
template <class Each>
DEVICE void for_stored_columns(const Each& each) {
  UNROLL_ALL
  for (int first = 0; first + kStored.columns <= WGMMA_N; first += kStored.columns)
    each(ColumnsOf<kStored.columns>(), first);
  if constexpr (kStored.rest > 0) each(ColumnsOf<kStored.rest>(), WGMMA_N - kStored.rest);  //@ wgmma-stored-rest
}

// Lays down the results of the warp's 16 rows, and of COLUMNS of the right operand, from `first` on, of one instruction.
template <int COLUMNS>
DEVICE void lay_down(char* to, const Output& out, const Sum (&sums)[WGMMA_N / 2], int first) {
  const int lane = int(threadIdx.x) % 32, group = lane / 4, in_group = lane % 4;
  const auto place = [&](int row, int column) {
    return swizzled<kStored.swizzle(COLUMNS)>((row * COLUMNS + column) * int(sizeof(Result)));  //@ wgmma-place-result
  };
  with_scalars(out.scalars, [&](const Scalars& scalars) {
    const Result* rows[2] = {out.row(group), out.row(8 + group)};
    const auto results_at = [&](Result (&results)[2], int j, int half) {
      const int column = 8 * j + 2 * in_group;
      const int inside = 8 * half + group < out.rows ? out.columns - column : 0;
      const int sum = first / 2 + 4 * j + 2 * half;
      apply<true>(scalars, {sums[sum], sums[sum + 1]}, results,
                  [&](Result (&old)[2]) { read_pair(old, rows[half] + column, 1, inside); });
    };
    if constexpr (sizeof(Result) == 2) {
      UNROLL_ALL
      for (int j = 0; j < COLUMNS / 8; j += 2) {
        unsigned words[4];
        UNROLL_ALL
        for (int q = 0; q < 4; ++q) {
          if (j + q / 2 >= COLUMNS / 8) break;
          Result results[2];
          results_at(results, j + q / 2, q % 2);
          copy_bits(words[q], results);
        }
        // Matrix q: rows 8 (q % 2) on, columns 8 (q / 2) on.
        if (j + 1 < COLUMNS / 8)
          store_matrices<4, false>(to + place(lane % 16, 8 * j + lane / 16 * 8), words);
        else
          store_matrices<2, false>(to + place(lane % 16, 8 * j), {words[0], words[1]});
      }
    } else {
      UNROLL_ALL
      for (int half = 0; half < 2; ++half) {
        UNROLL_ALL
        for (int j = 0; j < COLUMNS / 8; ++j) {
          Result results[2];
          results_at(results, j, half);
          store_part<2>(reinterpret_cast<Result*>(to + place(8 * half + group, 8 * j + 2 * in_group)), results, 0, 2);
        }
      }
    }
  });
}
#endif

#if EPILOGUE == 2
DEVICE void store_box(const WarpTile& to, const TensorMap& map, int column, int row, const char* box) {
#if BATCHED
  store_tile(map, column, row, to.work.product, box);
#else
  store_tile(map, column, row, box);
#endif
}

#if SWAP_AB
// The four warps of a warpgroup wait for one another.
struct Meeting {
  Mbarrier* barrier;
  int parity;
  DEVICE_MEMBER void wait() {
    mbarrier_arrive_warp(barrier);
    mbarrier_wait(barrier, parity);
    parity ^= 1;
  }
};

// stored: the number of the warpgroup's stores so far, of all work items; its two buffers take turns.
DEVICE void store_by_tma(const WarpTile& to, Sums& sums, char* shared, int& stored) {
  if (to.scalars.alpha == Sum(0)) clear(sums);
  constexpr int BUFFER = 4 * kStored.bytes();
  const int warpgroup = int(threadIdx.x) / kWarpgroup - 1;
  const bool first_thread = int(threadIdx.x) % kWarpgroup == 0;
  char* scratch = shared + kLayout.scratch_at() + warpgroup * kStored.kBuffers * BUFFER;
  // Two meetings for each store: the parity returns to 0.
  Meeting meeting = {meetings(shared) + warpgroup, 0};
  UNROLL_ALL
  for (int i = 0; i < kInstructions; ++i) {
    UNROLL_ALL
    for (int first = 0; first < WGMMA_N; first += kStored.kMostRows) {
      char* buffer = scratch + stored++ % kStored.kBuffers * BUFFER;  //@ wgmma-buffer-swapped
      if (first_thread) stores_read<kStored.kBuffers - 1>();  //@ wgmma-wait-buffer-swapped
      meeting.wait();
      lay_down(buffer, to.part(i, first, kStored.kMostRows), sums[i], first);
      fence_proxy_async();  //@ wgmma-fence-swapped
      if (to.scalars.beta != Sum(0)) fence_proxy_async_global();
      meeting.wait();  //@ wgmma-meeting
      if (first_thread) {
        const int column = to.work.column + to.first_left + to.left_of(i);  // of the warpgroup's first warp
        UNROLL_ALL
        for (int row = 0; row < kStored.kMostRows; row += kStored.rows) {
          if (first + row >= WGMMA_N) break;
          UNROLL_ALL
          for (int p = 0; p < kStored.panels(); ++p)
            store_box(to, to.args.c_maps[0], column + p * kStored.columns, to.work.row + to.right_of(i) + first + row,
                      buffer + p * kStored.panel_bytes() + row * kStored.width());
        }
        stores_commit();
      }
    }
  }
}
#else
// stored: the number of the warp's stores so far, of all work items; its two buffers take turns.
DEVICE void store_by_tma(const WarpTile& to, Sums& sums, char* shared, int& stored) {
  if (to.scalars.alpha == Sum(0)) clear(sums);  // drops NaN, too; cheaper than a choice for each sum
  char* scratch = scratch_of_warp(shared);
  UNROLL_ALL
  for (int i = 0; i < kInstructions; ++i) {
    for_stored_columns([&](auto columns, int first) {
      constexpr int COLUMNS = decltype(columns)::COLUMNS;
      char* buffer = scratch + stored++ % kStored.kBuffers * kStored.bytes();  //@ wgmma-buffer
      if (int(threadIdx.x) % 32 == 0) stores_read<kStored.kBuffers - 1>();  //@ wgmma-wait-buffer
      warp_barrier();
      lay_down<COLUMNS>(buffer, to.part(i, first, COLUMNS), sums[i], first);
      fence_proxy_async();  //@ wgmma-fence-stores
      if (to.scalars.beta != Sum(0)) fence_proxy_async_global();
      warp_barrier();
      if (int(threadIdx.x) % 32 == 0) {
        const TensorMap& map = to.args.c_maps[COLUMNS == kStored.columns ? 0 : kStored.maps() - 1];
        store_box(to, map, to.work.column + to.right_of(i) + first, to.work.row + to.first_left + to.left_of(i), buffer);
        stores_commit();
      }
    });
  }
}
#endif
#else
// Stores the rows of a buffer. Each lane stores one word of 4 bytes of a row; where a row is not aligned to words, the
// first word has only some elements of the row, and the row's last elements are stored one by one.
template <int COLUMNS>
DEVICE void store_rows_of(const Output& out, const char* buffer) {
  constexpr int WORD = 4 / int(sizeof(Result)), WORDS = COLUMNS / WORD;
  const int lane = int(threadIdx.x) % 32;
  const auto result = [&](int row, int column) {
    const int byte = (row * COLUMNS + column) * int(sizeof(Result));
    return *reinterpret_cast<const Result*>(buffer + swizzled<kStored.swizzle(COLUMNS)>(byte));
  };
  const auto shift_of = [](const Result* row) {
    return static_cast<int>(reinterpret_cast<unsigned long long>(row) / sizeof(Result) % WORD);  //@ wgmma-row-shift
  };
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
  if (lane < kStored.rows && lane < out.rows) {
    Result* to = out.row(lane);
    const int shift = shift_of(to);
    UNROLL_ALL
    for (int e = 1; e < WORD; ++e) {
      const int column = COLUMNS - e;
      if (shift >= e && column < out.columns) to[column] = result(lane, column);  //@ wgmma-row-last
    }
  }
}

DEVICE void store_rows(const WarpTile& to, Sums& sums, char* shared) {
  if (to.scalars.alpha == Sum(0)) clear(sums);
  // Addresses are not computed before the main loop, which has no registers for them.
  char* scratch = reinterpret_cast<char*>(opaque_shared_pointer(reinterpret_cast<float*>(scratch_of_warp(shared))));
  UNROLL_ALL
  for (int i = 0; i < kInstructions; ++i) {
    for_stored_columns([&](auto columns, int first) {
      constexpr int COLUMNS = decltype(columns)::COLUMNS;
      constexpr int PARTS = WGMMA_N / kStored.columns + (kStored.rest > 0);
      char* buffer = scratch + (i * PARTS + first / kStored.columns) % 2 * kStored.bytes();
      const Output out = to.part(i, first, COLUMNS);
      lay_down<COLUMNS>(buffer, out, sums[i], first);
      warp_barrier();  //@ wgmma-rows-barrier
      store_rows_of<COLUMNS>(out, buffer);
    });
  }
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
        if (row < out.rows) StagedSums::write(out, out.row(row), s % ACROSS, scratch + row * ROW);
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
          if (right < out.rows) out.write<1>(out.row(right), left, {sums[i][4 * j + 2 * half + e]});
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
          out.write<2>(row, right, pair);
        } else {
          out.write<1>(row, right, {pair[0]});
          out.write<1>(row, right + 1, {pair[1]});
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
