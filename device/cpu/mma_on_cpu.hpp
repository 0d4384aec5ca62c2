// multiply_fragments() and multiply_blocks() of templates/mma.cuh on the CPU. mma.cuh includes this
// file after the shapes (Op) and the places of their fragments' elements.
#pragma once

namespace tilewise_host {

// One lane's operands: the words of Rows fragments of A and of Columns of B, and Rows x Columns of
// sums.
template <class Op>
struct Fragments {
  typename Op::Sum* sums;
  const typename Op::Word *a, *b;
};

template <class Op, int Rows, int Columns>
struct Tiles {
  typename Op::Element a[Rows * Op::M][Op::K], b[Op::K][Columns * Op::N];
  typename Op::Sum sums[Rows * Op::M][Columns * Op::N];
};

#ifdef TILEWISE_TAGGED
// Checks of misplaced loads: the kernel runs with operands whose values are tags of their place,
// zero outside the matrix. TILEWISE_TAGGED 1: an element is 1 + k % 251; all elements of one k of
// the fragments must have the same tag. TILEWISE_TAGGED 2: an element is 1 + row % 251 (A) or
// 1 + column % 251 (B); all elements of one row (column) must have the same tag, and any two rows
// (columns) different tags.
struct Tagged {
  bool of_a;
  int i, k, tag;  // i: row of A, column of B
};

template <class Op>
TILEWISE_FOR_ALL int describe(char* text, int size, const Tagged& x, void* const* all) {
  const int side = x.of_a ? Op::M : Op::N, words = x.of_a ? Op::A : Op::B;
  int lane = 0, word = 0;
  for (int l = 0; l < 32; ++l)
    for (int w = 0; w < words; ++w) {
      const FragmentPlace place = x.of_a ? a_place<Op>(l, w) : b_place<Op>(l, w);
      const int i = x.of_a ? place.row : place.column, k = x.of_a ? place.column : place.row;
      if (i == x.i % side && k <= x.k && x.k < k + Op::PER_WORD) lane = l, word = w;
    }
  const Fragments<Op>& of_lane = *static_cast<const Fragments<Op>*>(all[lane]);
  const Site loaded = loaded_at((x.of_a ? of_lane.a : of_lane.b) + x.i / side * words + word);
  const char* line = x.of_a ? "row" : "column";
  int used = __builtin_snprintf(text, size, "%s %s %d, k %d (lane %d, word %d",
                                x.of_a ? "A's" : "B's", line, x.i, x.k, lane, word);
  if (loaded.file)
    used +=
        __builtin_snprintf(text + used, size - used, ", loaded at %s:%d", loaded.file, loaded.line);
  return used + __builtin_snprintf(text + used, size - used, ") holds %s = %d",
                                   TILEWISE_TAGGED == 1 ? "k" : line, x.tag - 1);
}

// Checks `next` against `first`: equal tags, or different ones when `apart`.
template <class Op>
TILEWISE_FOR_ALL void check_tag(Tagged& first, const Tagged& next, bool apart, void* const* all,
                                Site site) {
  if (next.tag == 0) return;
  if (first.tag == 0 && !apart) first = next;
  if ((first.tag == next.tag) != apart) return;
  char text[640];
  const int size = sizeof text;
  int used = __builtin_snprintf(text, size, "wrong fragment: ");
  used += describe<Op>(text + used, size - used, next, all);
  used += __builtin_snprintf(text + used, size - used, apart ? ", and so does " : ", but ");
  describe<Op>(text + used, size - used, first, all);
  runtime->fault(site, text);
}

template <class Op, int Count>
TILEWISE_FOR_ALL void check_apart(Tagged (&lines)[Count], void* const* all, Site site) {
  for (int i = 0; i < Count; ++i)
    for (int j = 0; j < i; ++j) check_tag<Op>(lines[j], lines[i], true, all, site);
}

template <class Op, int Rows, int Columns>
TILEWISE_FOR_ALL void check_tags(const Tiles<Op, Rows, Columns>& tiles, void* const* all,
                                 Site site) {
  constexpr bool kOfK = TILEWISE_TAGGED == 1;
  Tagged rows[Rows * Op::M] = {}, columns[Columns * Op::N] = {};
  for (int k = 0; k < Op::K; ++k) {
    Tagged beside = {};
    for (int i = 0; i < Rows * Op::M; ++i)
      check_tag<Op>(kOfK ? beside : rows[i], {true, i, k, int(tiles.a[i][k])}, false, all, site);
    for (int j = 0; j < Columns * Op::N; ++j)
      check_tag<Op>(kOfK ? beside : columns[j], {false, j, k, int(tiles.b[k][j])}, false, all,
                    site);
  }
  if (kOfK) return;
  check_apart<Op>(rows, all, site);
  check_apart<Op>(columns, all, site);
}
#endif

template <class Op, int Rows, int Columns>
TILEWISE_FOR_ALL inline void multiply_all(void* const* all, const WarpCall& call) {
  Tiles<Op, Rows, Columns> tiles;
  for (int lane = 0; lane < 32; ++lane) {
    const Fragments<Op>& mine = *static_cast<const Fragments<Op>*>(all[lane]);
    for (int r = 0; r < Rows; ++r)
      for (int w = 0; w < Op::A; ++w) {
        const FragmentPlace at = a_place<Op>(lane, w);
        for (int e = 0; e < Op::PER_WORD; ++e)
          tiles.a[r * Op::M + at.row][at.column + e] = Op::element(mine.a[r * Op::A + w], e);
      }
    for (int c = 0; c < Columns; ++c)
      for (int w = 0; w < Op::B; ++w) {
        const FragmentPlace at = b_place<Op>(lane, w);
        for (int e = 0; e < Op::PER_WORD; ++e)
          tiles.b[at.row + e][c * Op::N + at.column] = Op::element(mine.b[c * Op::B + w], e);
      }
    for (int t = 0; t < Rows * Columns; ++t)
      for (int w = 0; w < Op::C; ++w) {
        const FragmentPlace at = c_place<Op>(lane, w);
        tiles.sums[t / Columns * Op::M + at.row][t % Columns * Op::N + at.column] =
            mine.sums[t * Op::C + w];
      }
  }
#ifdef TILEWISE_TAGGED
  check_tags<Op, Rows, Columns>(tiles, all, call.site);
#endif
  for (int i = 0; i < Rows * Op::M; ++i)
    for (int k = 0; k < Op::K; ++k)
      for (int j = 0; j < Columns * Op::N; ++j)
        tiles.sums[i][j] = Op::multiply_add(tiles.a[i][k], tiles.b[k][j], tiles.sums[i][j]);
  for (int lane = 0; lane < 32; ++lane)
    for (int t = 0; t < Rows * Columns; ++t)
      for (int w = 0; w < Op::C; ++w) {
        const FragmentPlace at = c_place<Op>(lane, w);
        static_cast<Fragments<Op>*>(all[lane])->sums[t * Op::C + w] =
            tiles.sums[t / Columns * Op::M + at.row][t % Columns * Op::N + at.column];
      }
}

template <class Op, int Rows, int Columns>
inline void multiply(typename Op::Sum* sums, const typename Op::Word* a, const typename Op::Word* b,
                     Site site) {
  Fragments<Op> mine{sums, a, b};
  runtime->warp({site, "multiply_fragments", ~0u, false, &mine, multiply_all<Op, Rows, Columns>});
}

}  // namespace tilewise_host
