// Operations that take, repeat or add positions of an axis.
#include <cstdint>
import lamina;
using namespace lamina;

// case: select_of_number
// expect: select: axis 0 is outside the rank: []
void select_of_number() {
#ifdef BAD
  auto y = select(reduce_sum(vector<float, 3>()), 0, 1);
#else
  auto y = select(vector<float, 3>(), 0, 1);
#endif
}

// case: select_position
// expect: select: position 3 is outside of axis 0: [3x4]
void select_position() {
#ifdef BAD
  auto y = select<0, 3>(matrix<float, 3, 4>());
#else
  auto y = select<0, 2>(matrix<float, 3, 4>());
#endif
}

// case: slice_of_number
// expect: slice: axis 0 is outside the rank: []
void slice_of_number() {
#ifdef BAD
  auto y = slice(reduce_sum(vector<float, 3>()), {.stop = 1});
#else
  auto y = slice(vector<float, 3>(), {.stop = 1});
#endif
}

// case: positions_axis
// expect: positions: axis 2 is outside the rank: [4x3]
void positions_axis() {
#ifdef BAD
  auto y = positions<2>(tensor<float, extents<4, 3>>());
#else
  auto y = positions<1>(tensor<float, extents<4, 3>>());
#endif
}

// case: repeat_axis
// expect: repeat: axis 2 is outside the rank: [3x4]
void repeat_axis() {
#ifdef BAD
  auto y = repeat<2, 2>(matrix<float, 3, 4>());
#else
  auto y = repeat<2, 1>(matrix<float, 3, 4>());
#endif
}

// case: tile_argument
// expect: for typed operands the call must give the rank: write `tile(x, {2, 1})`
void tile_argument() {
#ifdef BAD
  auto y = tile(matrix<float, 3, 4>(), shape{2, 1});
#else
  auto y = tile(matrix<float, 3, 4>(), {2, 1});
#endif
}

// case: tile_to_multiple
// expect: tile_to: extent 4 of [4x4] is not a multiple of 3: [3x4]
void tile_to_multiple() {
#ifdef BAD
  auto y = tile_to<extents<4, 4>>(matrix<float, 3, 4>());
#else
  auto y = tile_to<extents<6, 4>>(matrix<float, 3, 4>());
#endif
}

// case: pad_border
// expect: pad: a border cannot have -1 positions before and 0 after: [3x4]
void pad_border() {
#ifdef BAD
  auto y = pad<pad_attributes{.axis = 0, .before = -1}>(matrix<float, 3, 4>());
#else
  auto y = pad<pad_attributes{.axis = 0, .before = 1}>(matrix<float, 3, 4>());
#endif
}

// case: gather_positions
// expect: gather: takes int64 positions, not float32; cast first, as in cast<std::int64_t>(x): float32[3x4] float32[2]
void gather_positions() {
#ifdef BAD
  auto y = gather<0>(matrix<float, 3, 4>(), vector<float, 2>());
#else
  auto y = gather<0>(matrix<float, 3, 4>(), vector<std::int64_t, 2>());
#endif
}

// case: take_along_axis_shape
// expect: take_along_axis: the positions must have the shape of the operand except along axis 0: float32[3x4] int64[2x3]
void take_along_axis_shape() {
#ifdef BAD
  auto y = take_along_axis<0>(matrix<float, 3, 4>(), matrix<std::int64_t, 2, 3>());
#else
  auto y = take_along_axis<0>(matrix<float, 3, 4>(), matrix<std::int64_t, 2, 4>());
#endif
}

// case: scatter_add_shape
// expect: scatter_add: positions and elements to add must have the same shape: float32[3x4] int64[2x4] float32[5x4]
void scatter_add_shape() {
#ifdef BAD
  auto y = scatter_add<0>(matrix<float, 3, 4>(), matrix<std::int64_t, 2, 4>(), matrix<float, 5, 4>());
#else
  auto y = scatter_add<0>(matrix<float, 3, 4>(), matrix<std::int64_t, 2, 4>(), matrix<float, 2, 4>());
#endif
}

// case: embedding_table
// expect: embedding: a table [rows, features] is expected: float32[3] int64[2]
void embedding_table() {
#ifdef BAD
  auto y = embedding(vector<float, 3>(), vector<std::int64_t, 2>());
#else
  auto y = embedding(matrix<float, 3, 4>(), vector<std::int64_t, 2>());
#endif
}
