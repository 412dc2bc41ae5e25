// Random number operators. Without a seed in the model, the seed is derived from the name of the result, so that every
// run draws the same numbers.
module lamina.onnx:random.impl;
import :convert;
import :message;
import lamina;
import lamina.std;

namespace lamina::onnx {

namespace {

seed_attributes seed_of(node_call& c, bool whole = false) {
  std::uint64_t h = 0xcbf29ce484222325u;
  if (c.has_attribute("seed")) {
    h = whole ? static_cast<std::uint64_t>(c.integer("seed")) : std::bit_cast<std::uint64_t>(c.real("seed", 0));
  } else {
    for (auto name : c.node.outputs)
      for (char letter : name) h = (h ^ static_cast<unsigned char>(letter)) * 0x100000001b3u;
  }
  return {static_cast<std::int64_t>(h >> 1)};
}
// A value of the shape in attribute `shape`; its elements are never read.
value shaped(node_call& c) {
  lamina::shape s;
  const auto all = c.node_call::integers("shape");
  if (all.size() > static_cast<std::size_t>(max_rank)) c.fail("attribute `shape` has ", all.size(), " extents");
  for (auto n : all) {
    if (n < 0) c.fail("attribute `shape` has the extent ", n);
    s.push_back(dim(n));
  }
  if (!s.countable()) c.fail("attribute `shape` has too many elements");
  const value zero = c.constant(0., dtype::float32);
  return s.rank ? value(lamina::tile_to(zero, s)) : zero;
}
template <bool Like> void uniform(node_call& c) {
  const value like = Like ? c[0] : shaped(c);
  c.give(0, lamina::uniform_like(like, c.element("dtype", like.type().element), c.real("low", 0), c.real("high", 1),
                                 seed_of(c)));
}
template <bool Like> void normal(node_call& c) {
  const value like = Like ? c[0] : shaped(c);
  c.give(0, lamina::normal_like(like, c.element("dtype", like.type().element), c.real("mean", 0), c.real("scale", 1),
                                seed_of(c)));
}
void bernoulli(node_call& c) {
  c.give(0, lamina::bernoulli(c.number(0), c.element("dtype", c.type(0).element), seed_of(c)));
}
void multinomial(node_call& c) {
  const std::int64_t count = c.integer("sample_size", 1);
  if (count < 0 || count > (1 << 24)) c.fail("attribute `sample_size` is ", count);
  c.give(0, c.cast_to(lamina::multinomial(c.number(0), count, seed_of(c)), c.element("dtype", dtype::int32)));
}

// Dropout is active only in training, which an operand selects since opset 12.
void dropout(node_call& c) {
  const bool computed = c.has(2) && !c.known(2);
  if (computed || (c.has(2) && c.known_number(2, "training mode", 0) != 0)) {
    const value ratio = c.has(1) ? c.cast_to(c[1], dtype::float32) : c.constant(0.5, dtype::float32);
    const auto left = lamina::dropout_of(c.number(0), ratio, c[2], seed_of(c, true));
    c.give_like(0, left.result);
    return c.give(1, left.mask);
  }
  c.give(0, c[0]);
  if (c.has_output(1)) c.give(1, lamina::broadcast_like(c.constant(1.0, dtype::boolean), c[0]));
}

constexpr converter_entry entries[] = {
    {"Bernoulli", 15, bernoulli, false},
    {"Dropout", 7, dropout, false},
    {"Multinomial", 7, multinomial, false},
    {"RandomNormal", 1, normal<false>, false},
    {"RandomNormalLike", 1, normal<true>, false},
    {"RandomUniform", 1, uniform<false>, false},
    {"RandomUniformLike", 1, uniform<true>, false},
};

}  // namespace

converter_list random_converters() { return entries; }

}  // namespace lamina::onnx
