// mma's tiles of A and B in shared memory: how threads copy them, and how a warp reads fragments of them. See mma.cu.
#pragma once
#include "words/mma.cuh"
#include "families/mma/layout.hpp"
#include "parts/epilogue.cuh"
#include "parts/schedule.cuh"
#include "words/runs.cuh"
#include "words/warp.cuh"
#if TMA
#include "words/tma.cuh"
#endif

#if MATH > 0
typedef MmaTf32 Op;
#elif ELEMENT == TYPE_F64
typedef MmaF64 Op;
#elif ELEMENT == TYPE_F16
typedef MmaF16 Op;
#elif ELEMENT == TYPE_BF16
typedef MmaBf16 Op;
#elif ELEMENT == TYPE_I8
typedef MmaS8 Op;
#elif ELEMENT == TYPE_E4M3
typedef MmaE4m3 Op;
#elif ELEMENT == TYPE_E5M2
typedef MmaE5m2 Op;
#endif
typedef Op::Word Word;

constexpr bool kWholeM = known_whole_m(TILE_M), kWholeN = known_whole_n(TILE_N), kWholeK = known_whole_k(TILE_K);
constexpr int kElementBytes = sizeof(Element);
constexpr int kWarpsM = TILE_M / WARP_M, kWarpsN = TILE_N / WARP_N;
constexpr int kGroupThreads = kWarpsM * kWarpsN * 32, kThreads = kGroupThreads * SLICE_K;
constexpr int kSteps = TILE_K / Op::K / SLICE_K;  // of a tile's k, for one group of warps
static_assert(TILE_M % WARP_M == 0 && TILE_N % WARP_N == 0, "warps tile the block");
static_assert(WARP_M % 16 == 0 && WARP_N % 16 == 0, "a warp's tile is whole instructions, two along n");
static_assert(TILE_K % (Op::K * SLICE_K) == 0, "a group's part of TILE_K is whole steps");
static_assert(kThreads <= 1024, "a block has at most 1024 threads");

// One operand's tile, SPAN (of m or n) x TILE_K, staged as it lies in memory: in panels one line wide (128 bytes, or
// the tile's row where that is shorter). The 16-byte chunks of a line are XOR-swizzled, so that the chunks of one
// access lie in different banks. ALONG_K: k is contiguous. BYTES: of one copy (ASYNC: by cp.async, else through
// registers).
//
// Rows that are not aligned to words (BYTES below 4) are copied as the aligned chunks that hold any of their bytes.
// That is one chunk more than the tile's row has; it lies behind the tile. The warp that copied a row then realigns it:
// realign(). No other bytes outside a row are read, and these are not used.
template <int SPAN, bool ALONG_K, int BYTES, bool ASYNC>
struct Operand {
  static constexpr int MAPS = 1;  // tensor maps
  static constexpr tilewise::mma::TileLayout LAYOUT = {SPAN, TILE_K, kElementBytes, ALONG_K, BYTES, TMA != 0};
  static constexpr int ROWS = LAYOUT.rows(), ROW_BYTES = LAYOUT.row_bytes(), TILE_BYTES = LAYOUT.tile_bytes();
  static constexpr int ACROSS = LAYOUT.chunks_across();  // chunks of a row
  static constexpr int LINE = ROW_BYTES < 128 ? ROW_BYTES : 128;
  static constexpr int IN_LINE = LINE / 16, PANEL_BYTES = ROWS * LINE;
  static constexpr int ROWS_APART = kThreads / ACROSS;
  static constexpr int COUNT = LAYOUT.chunks(kThreads);  // chunks a thread copies
  static constexpr bool EVEN = ROWS % ROWS_APART == 0;
  static_assert(ROW_BYTES % 16 == 0 && 128 % LINE == 0 && ROW_BYTES % LINE == 0, "rows are whole lines");
  static_assert(kThreads % ACROSS == 0, "the threads take whole rows");

  // BY_MATRIX: ldmatrix reads the fragments, one chunk of each of 8 rows; others are read as vectors or words: Reader.
  static constexpr bool BY_MATRIX = LAYOUT.by_matrix(), BYTES_ACROSS = LAYOUT.bytes_across();
  static DEVICE_MEMBER int swizzle(int row) {
    if constexpr (BYTES_ACROSS)
      return row / 4 % 4 * 2;
    else
      return row / (128 / LINE) % IN_LINE;  // TMA's swizzle, see swizzled() in tma.cuh  //@ mma-swizzle-row
  }
  static DEVICE_MEMBER int offset(int row, int chunk) {
    return chunk / IN_LINE * PANEL_BYTES + row * LINE + ((chunk % IN_LINE ^ swizzle(row)) << 4);
  }

  // A batch is the rows that a warp copies with RUN chunks a lane. To realign them, each lane takes a run of RUN
  // neighbouring chunks of one row, for which it reads RUN + 1.
  static constexpr bool REALIGNS = LAYOUT.shifts();
  static constexpr int RUN = LAYOUT.run(kThreads);
  static constexpr int BATCHES = COUNT / RUN, BATCH_ROWS = RUN * 32 / ACROSS, BATCHES_APART = RUN * ROWS_APART;
  static constexpr int STAGED_BYTES = LAYOUT.staged_bytes(), LOADED_BYTES = TILE_BYTES;
  static constexpr int COPIED = REALIGNS ? 16 : BYTES;
  static_assert(!REALIGNS || 32 % ACROSS == 0, "a warp copies whole rows where rows are realigned");
  static_assert(!REALIGNS || TILE_K * kElementBytes % 16 == 0, "a row is realigned by the same number of bytes in every tile");

  const char* first;  // this thread's first chunk of the next tile
  Int64 rows_apart, batches_apart, tile_apart;  // bytes from one chunk to the next in a batch, to the next batch, tile
  int row, chunk;     // of the first chunk
  const char* last;   // the chunk behind the tile that this lane copies, of row last_row
  int last_row;
  int run_row, run_chunk, run_shift;  // the first run that this lane realigns, and by how many bytes
  int span_left;  // rows (columns) of the matrix from the tile's first on, at most SPAN

  DEVICE_MEMBER Operand(const Element* matrix, Int64 ld, Int64 span0, Int64 span, Int64 k0)
      : rows_apart(32 / ACROSS * ld * kElementBytes),
        batches_apart(BATCHES_APART * ld * kElementBytes),
        tile_apart((ALONG_K ? TILE_K : TILE_K * ld) * kElementBytes) {
    const Int64 left = span - span0;
    span_left = left < SPAN ? static_cast<int>(left) : SPAN;
    const Int64 row0 = ALONG_K ? span0 : k0, in_row = (ALONG_K ? k0 : span0) * kElementBytes;
    const auto place_in_row = [&](int of_row) {
      return reinterpret_cast<const char*>(matrix) + (row0 + of_row) * ld * kElementBytes + in_row;
    };
    const int thread = threadIdx.x, lane = thread % 32, batch = thread / 32 * BATCH_ROWS;
    row = REALIGNS ? batch + lane / ACROSS : thread / ACROSS;
    chunk = thread % ACROSS;
    first = place_in_row(row) + chunk * 16;
    if constexpr (REALIGNS) {
      last_row = batch + lane;
      last = place_in_row(last_row) + ROW_BYTES;
      // Lanes go down RUN rows, then across the runs of a line, then to the next RUN rows: the chunks of 8 lanes lie in
      // different banks.
      constexpr int RUNS = IN_LINE / RUN, ROW_GROUPS = BATCH_ROWS / RUN;
      run_row = batch + lane / IN_LINE % ROW_GROUPS * RUN + lane % RUN;
      run_chunk = lane / IN_LINE / ROW_GROUPS * IN_LINE + lane / RUN % RUNS * RUN;
      run_shift = before(place_in_row(run_row));
    }
  }
  DEVICE_MEMBER void advance() {
    first += tile_apart;
    if (REALIGNS) last += tile_apart;
  }
  DEVICE_MEMBER bool inside() const { return span_left == SPAN; }

#if TMA
  // Called by one thread: copies the tile from row (column) `span` and step k on, panel by panel.
  static DEVICE_MEMBER void issue_load(char* tile, const TensorMap* map, int span, int k, Mbarrier* barrier) {
    static_assert(!BYTES_ACROSS, "TMA has no swizzle for 8-bit elements whose k is not contiguous");
    UNROLL_ALL
    for (int p = 0; p < ROW_BYTES / LINE; ++p) {
      const int across = p * (LINE / kElementBytes);
      load_tile(tile + p * PANEL_BYTES, *map, (ALONG_K ? k : span) + across, ALONG_K ? span : k, barrier);  //@ mma-tma-load
    }
  }
#endif

  unsigned in_flight[ASYNC ? 1 : COUNT + BATCHES * REALIGNS][4];  // chunks in flight through registers

  // Issues the part-th of PARTS shares of this thread's copies of the next tile. INSIDE: the whole tile is inside the
  // matrix.
  template <bool INSIDE, int PARTS = 1>
  DEVICE_MEMBER void start(char* tile, int k_left, int part = 0) {
    UNROLL_ALL
    for (int j = 0; j < COUNT; ++j) {
      if (j * PARTS / COUNT != part) continue;
      const int to_row = row + down(j);
      const char* from = first + j / RUN * batches_apart + j % RUN * rows_apart;
      if (EVEN || to_row < ROWS) load_chunk<INSIDE, false>(tile + offset(to_row, chunk), from, to_row, k_left, j);
      if constexpr (REALIGNS) {
        const int b = j / RUN, row_of_last = last_row + b * BATCHES_APART;
        if (j % RUN == RUN - 1 && has_last(row_of_last))
          load_chunk<INSIDE, true>(tile + TILE_BYTES + row_of_last * 16, last + b * batches_apart, row_of_last, k_left,
                              COUNT + b);
      }
    }
  }
  // Stores the chunks that were loaded to registers.
  DEVICE_MEMBER void finish(char* tile) const {
    if constexpr (!ASYNC) {
      UNROLL_ALL
      for (int j = 0; j < COUNT; ++j) {
        const int to_row = row + down(j);
        if (!EVEN && to_row >= ROWS) break;
        store_vector<4>(reinterpret_cast<unsigned*>(tile + offset(to_row, chunk)), in_flight[j]);
      }
      UNROLL_ALL
      for (int b = 0; b < BATCHES * REALIGNS; ++b) {
        const int to_row = last_row + b * BATCHES_APART;
        if (has_last(to_row))
          store_vector<4>(reinterpret_cast<unsigned*>(tile + TILE_BYTES + to_row * 16), in_flight[COUNT + b]);
      }
    }
  }
  // Realigns the rows that this warp copied; their copies are complete.
  DEVICE_MEMBER void realign([[maybe_unused]] char* tile) const {
    if constexpr (REALIGNS) {
      warp_barrier();  //@ mma-landed-barrier
      UNROLL_ALL
      for (int b = 0; b < BATCHES; ++b) {
        const int in_row = run_row + b * BATCHES_APART;
        const bool there = EVEN || in_row < ROWS;
        char* at[RUN + 1];
        UNROLL_ALL
        for (int i = 0; i < RUN; ++i) at[i] = tile + (offset(in_row, run_chunk) ^ i * 16);
        const bool ends = run_chunk + RUN == ACROSS;
        at[RUN] = tile + (ends ? TILE_BYTES + in_row * 16 : offset(in_row, run_chunk + RUN));
        unsigned chunks[RUN + 1][4];
        UNROLL_ALL
        for (int i = 0; i <= RUN; ++i)
          if (there) load_vector<4>(chunks[i], reinterpret_cast<const unsigned*>(at[i]));  //@ mma-realign-read
        warp_barrier();  // a run's first chunk is also read with the run before it  //@ mma-realign-barrier
        if (!there) continue;
        shift_runs<RUN>(chunks, static_cast<int>((run_shift + b * batches_apart) & 15));
        UNROLL_ALL
        for (int i = 0; i < RUN; ++i) store_vector<4>(reinterpret_cast<unsigned*>(at[i]), chunks[i]);  //@ mma-realign-write
      }
    }
  }

 private:
  // Rows from a thread's first chunk down to its j-th.
  static constexpr DEVICE_MEMBER int down(int j) { return j / RUN * BATCHES_APART + j % RUN * (32 / ACROSS); }
  // Bytes from the aligned address at or before `address` to it.
  static DEVICE_MEMBER int before(const char* address) {
    return static_cast<int>(reinterpret_cast<unsigned long long>(address) & 15);
  }
  DEVICE_MEMBER bool has_last(int of_row) const {
    return int(threadIdx.x) % 32 < BATCH_ROWS && (EVEN || of_row < ROWS);
  }
  // Bytes (0 to 16) of a row's nth chunk that lie inside the matrix and the tile's first k_left steps of k. The row's
  // chunks begin `early` bytes before the row.
  DEVICE_MEMBER int valid(int of_row, int nth, int early, int k_left) const {
    if (of_row >= (ALONG_K ? span_left : k_left)) return 0;  //@ mma-row-edge
    const int bytes = (ALONG_K ? k_left : span_left) * kElementBytes + early - nth * 16;
    return bytes < 0 ? 0 : (bytes < 16 ? bytes : 16);
  }
  // Copies one chunk. LAST: the chunk behind the tile; its first `early` bytes are used.
  template <bool INSIDE, bool LAST>
  DEVICE_MEMBER void load_chunk(char* to, const char* from, int to_row, int k_left, [[maybe_unused]] int nth) {
    const int early = REALIGNS ? before(from) : 0;
    const int bytes = INSIDE ? (LAST ? early : 16) : valid(to_row, LAST ? ACROSS : chunk, early, k_left);
    const int before_row = LAST || chunk > 0 ? 0 : early;  // bytes before the row
    from -= early;
    if constexpr (ASYNC) {
      UNROLL_ALL
      for (int b = 0; b < 16; b += COPIED) copy_bytes_async<COPIED>(to + b, from + b, bytes - b, before_row);  //@ mma-cp-async
    } else if constexpr (REALIGNS) {
      read_aligned_run<kElementBytes>(in_flight[nth], from, {before_row, bytes});
    } else if (bytes == 16) {
      read_run<kElementBytes, BYTES, true>(in_flight[nth], from, bytes, 0);
    } else {
      read_run<kElementBytes, BYTES, false>(in_flight[nth], from, bytes, 0);
    }
  }
};

// How a warp reads its fragments of a tile: ROW_GROUPS row groups of 8 rows (of m or n), from `first` on. Word c of row
// group u holds, for each lane, the elements of row lane / 4 of the group and of half c of the step of k.
//
// An instruction takes its words of A (two row groups, then their other half of k) and of B (the two halves of a row
// group) in consecutive registers; loads that return them in another order cost moves. So the loads are:
//   - k contiguous, elements of 1, 2 and 4 bytes: ldmatrix; f64: one element;
//   - k not contiguous, 2 bytes: ldmatrix.trans;
//   - k not contiguous, 4 and 8 bytes: of A two neighbours, for two row groups, of B one element;
//   - k not contiguous, 1 byte: words of four neighbours, for four row groups, transposed in registers.
//
// Any 8 rows (columns) may form a row group, as long as C is written in the same order: place(). They are chosen so
// that reads have no bank conflicts.
template <class Tile, int ROW_GROUPS, bool IS_A>
struct Reader;
template <int SPAN, bool ALONG_K, int BYTES, bool ASYNC, int ROW_GROUPS, bool IS_A>
struct Reader<Operand<SPAN, ALONG_K, BYTES, ASYNC>, ROW_GROUPS, IS_A> {
  typedef Operand<SPAN, ALONG_K, BYTES, ASYNC> Tile;
  static constexpr bool BY_MATRIX = Tile::BY_MATRIX, BYTES_ACROSS = Tile::BYTES_ACROSS;
  static constexpr int TOGETHER = BYTES_ACROSS ? 4 : (BY_MATRIX || ALONG_K || !IS_A ? 1 : 2);  // row groups of a read
  static constexpr int READS = BY_MATRIX ? ROW_GROUPS / 2 : ROW_GROUPS / TOGETHER;
  // k not contiguous: the lanes of one access read four rows, in each of them two chunks that are 4 apart.
  static constexpr int READ_BYTES = TOGETHER * kElementBytes;
  static constexpr int IN_CHUNK = 16 / READ_BYTES, READS_OF_LINE = 16 / READ_BYTES;
  static_assert(ROW_GROUPS % (BY_MATRIX ? 2 : TOGETHER) == 0, "a warp's part is whole reads");
  static_assert(BY_MATRIX || ALONG_K || ROW_GROUPS * 8 * kElementBytes % (BYTES_ACROSS ? 32 : 128) == 0,
                "a warp's part is whole lines");
  // Whether place(u, 2 i) and place(u, 2 i + 1) are neighbours.
  static constexpr bool PAIRS = BY_MATRIX || (!ALONG_K && !BYTES_ACROSS && IN_CHUNK > 1);

  // The row (column) of the warp's part that is row `group` (lane / 4) of row group u.
  static DEVICE_MEMBER int place(int u, int group) {
    if constexpr (BY_MATRIX) return u * 8 + group;
    if constexpr (ALONG_K) return u * 8 + group % 4 * 2 + group / 4;
    if constexpr (BYTES_ACROSS) return u / 4 * 32 + group * 4 + u % 4;
    const int read = u / TOGETHER;
    return (read / READS_OF_LINE * 128 + (chunk_of(group) ^ chunk_of_read(read)) * 16 +
            group % IN_CHUNK * READ_BYTES) / kElementBytes + u % TOGETHER;
  }
  static DEVICE_MEMBER int chunk_of(int group) {
    return group / (2 * IN_CHUNK) + group / IN_CHUNK % 2 * 4;
  }
  static DEVICE_MEMBER int chunk_of_read(int read) { return read % READS_OF_LINE * (READ_BYTES / 4); }

  // Bytes, in the first step of k: of the first read, or of every read where their swizzles differ by no constant.
  static constexpr bool ONE_OFFSET = BY_MATRIX ? ALONG_K : !BYTES_ACROSS;
  int offsets[ONE_OFFSET ? 1 : READS];

  DEVICE_MEMBER Reader(int first, int lane, const Element*, Int64) {
    const int group = lane / 4, in_group = lane % 4;
    // Of the matrix whose row address this lane gives to ldmatrix.
    const int row_group = IS_A ? lane / 8 % 2 : lane / 16, half = IS_A ? lane / 16 : lane / 8 % 2;
    if constexpr (BY_MATRIX && ALONG_K) {
      offsets[0] = Tile::offset(first + row_group * 8 + lane % 8, half);
    } else if constexpr (BY_MATRIX) {
      UNROLL_ALL
      for (int i = 0; i < READS; ++i) offsets[i] = Tile::offset(half * 8 + lane % 8, first / 8 + 2 * i + row_group);
    } else if constexpr (BYTES_ACROSS) {
      UNROLL_ALL
      for (int i = 0; i < READS; ++i)
        offsets[i] = Tile::offset(4 * in_group, first / 16 + 2 * i + group / 4) + group % 4 * 4;
    } else if constexpr (ALONG_K) {
      offsets[0] = Tile::offset(first + place(0, group), in_group / 2) + in_group % 2 * 8;
    } else {
      offsets[0] = Tile::offset(in_group, first * kElementBytes / 16 + chunk_of(group)) + group % IN_CHUNK * READ_BYTES;
    }
  }

  // The address `bytes` of k after `offset`. Within a line that is an XOR, since the swizzle is one.
  static DEVICE_MEMBER const char* along(const char* tile, int offset, int bytes) {
    return tile + bytes / Tile::LINE * Tile::PANEL_BYTES + (offset ^ bytes % Tile::LINE);  //@ mma-swizzle-offset
  }

  // Reads all fragments of a step of k: put(u, c, word) for each word.
  template <class Put>
  DEVICE_MEMBER void read(const char* tile, int step, const Put& put) const {
    if constexpr (Tile::BY_MATRIX) {
      UNROLL_ALL
      for (int i = 0; i < READS; ++i) {
        const char* at = ALONG_K ? along(tile, offsets[0], step * 32) + i * 16 * Tile::LINE
                                 : tile + offsets[ALONG_K ? 0 : i] + step * Op::K * Tile::LINE;
        unsigned words[4];
        load_matrices<4, !ALONG_K>(words, at);  //@ mma-ldmatrix
        UNROLL_ALL
        for (int w = 0; w < 4; ++w)
          put(2 * i + (IS_A ? w % 2 : w / 2), IS_A ? w / 2 : w % 2, words[w]);
      }
    } else if constexpr (Tile::BYTES_ACROSS) {
      UNROLL_ALL
      for (int i = 0; i < READS; ++i) {
        UNROLL_ALL
        for (int c = 0; c < 2; ++c) {
          unsigned rows[4], words[4];
          UNROLL_ALL
          for (int r = 0; r < 4; ++r)
            rows[r] = *reinterpret_cast<const unsigned*>(
                tile + offsets[i] + (step * Op::K + c * 16 + r) * Tile::LINE);
          transpose_bytes(words, rows);
          UNROLL_ALL
          for (int w = 0; w < 4; ++w) put(4 * i + w, c, words[w]);
        }
      }
    } else if constexpr (ALONG_K) {
      UNROLL_ALL
      for (int i = 0; i < READS; ++i) {
        UNROLL_ALL
        for (int c = 0; c < 2; ++c)
          put(i, c, *reinterpret_cast<const Word*>(along(tile, offsets[0], step * 64 + c * 32) + i * 8 * Tile::LINE));
      }
    } else {
      // The second half of a step is 4 rows on; its chunks are swizzled by 4.
      UNROLL_ALL
      for (int i = 0; i < READS; ++i) {
        UNROLL_ALL
        for (int c = 0; c < 2; ++c) {
          const char* line = tile + i / READS_OF_LINE * Tile::PANEL_BYTES + (step * Op::K + c * 4) * Tile::LINE;
          Word words[TOGETHER];
          load_vector<TOGETHER>(
              words, reinterpret_cast<const Word*>(line + (offsets[0] ^ (c * 4 ^ chunk_of_read(i)) * 16)));
          UNROLL_ALL
          for (int w = 0; w < TOGETHER; ++w) put(TOGETHER * i + w, c, words[w]);
        }
      }
    }
  }
};
