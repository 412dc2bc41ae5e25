// Attention over operands whose shapes do not fit.
#include <cstdint>
import lamina;
using namespace lamina;

// case: attention_depth
// expect: attention: queries and keys differ in depth: [3x4] [5x6] [5x6]
void attention_depth() {
#ifdef BAD
  auto y = attention(matrix<float, 3, 4>(), matrix<float, 5, 6>(), matrix<float, 5, 6>());
#else
  auto y = attention(matrix<float, 3, 4>(), matrix<float, 5, 4>(), matrix<float, 5, 6>());
#endif
}

// case: attention_heads
// expect: attention: query heads are not a multiple of key and value heads: [4x3x8] [3x5x8] [3x5x8]
void attention_heads() {
#ifdef BAD
  auto y = attention(tensor<float, extents<4, 3, 8>>(), tensor<float, extents<3, 5, 8>>(),
                     tensor<float, extents<3, 5, 8>>());
#else
  auto y = attention(tensor<float, extents<4, 3, 8>>(), tensor<float, extents<2, 5, 8>>(),
                     tensor<float, extents<2, 5, 8>>());
#endif
}

// case: attention_keys_and_values
// expect: attention: keys and values differ in number: [3x4] [5x4] [6x7]
void attention_keys_and_values() {
#ifdef BAD
  auto y = attention(matrix<float, 3, 4>(), matrix<float, 5, 4>(), matrix<float, 6, 7>());
#else
  auto y = attention(matrix<float, 3, 4>(), matrix<float, 5, 4>(), matrix<float, 5, 7>());
#endif
}

// case: attention_rank
// expect: attention: queries, keys and values must have the same rank [..., T, D]: [2x3x4] [5x4] [5x6]
void attention_rank() {
#ifdef BAD
  auto y = attention(tensor<float, extents<2, 3, 4>>(), matrix<float, 5, 4>(), matrix<float, 5, 6>());
#else
  auto y = attention(tensor<float, extents<2, 3, 4>>(), tensor<float, extents<2, 5, 4>>(),
                     tensor<float, extents<2, 5, 6>>());
#endif
}

// case: cached_attention_memory
// expect: cached_attention: the cache must have the shape of keys and values except for the number of positions:
namespace cached_attention_memory {
using block = tensor<float, extents<2, 3, 8>>;
using count = vector<std::int64_t, 1>;

void use() {
#ifdef BAD
  auto y = cached_attention(block(), block(), block(), tensor<float, extents<2, 64, 8>>(),
                            tensor<float, extents<2, 60, 8>>(), count());
#else
  auto y = cached_attention(block(), block(), block(), tensor<float, extents<2, 64, 8>>(),
                            tensor<float, extents<2, 64, 8>>(), count());
#endif
}
}  // namespace cached_attention_memory

// case: rope_positions
// expect: rope: takes int64 positions, not float32; cast first, as in cast<std::int64_t>(x): float32[3x4] float32[3]
void rope_positions() {
#ifdef BAD
  auto y = rope(matrix<float, 3, 4>(), vector<float, 3>());
#else
  auto y = rope(matrix<float, 3, 4>(), cast<std::int64_t>(vector<float, 3>()));
#endif
}

// case: rotary_tables
// expect: rotary_embedding: cosines and sines must broadcast to the operand and have its depth: [3x4] [2x4] [2x4]
void rotary_tables() {
#ifdef BAD
  auto y = rotary_embedding(matrix<float, 3, 4>(), matrix<float, 2, 4>(), matrix<float, 2, 4>());
#else
  auto y = rotary_embedding(matrix<float, 3, 4>(), matrix<float, 3, 4>(), matrix<float, 3, 4>());
#endif
}
