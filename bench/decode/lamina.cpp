// lamina's decoder: a program for one position, with keys and values as inputs and outputs.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "decode.h"

import lamina;

namespace {

using namespace lamina;
using bench::decode::weights;
using ir::program;
using ir::session;
using ir::value;

constexpr std::int64_t width = 512, layers = 8, heads = 8, depth = width / heads, hidden = 1408, tokens = 4096,
                       room = 256, block = 32;

/// A parameter of pseudorandom bytes or of floats in +-1 / sqrt(fan).
any_tensor numbers(const tensor_type& type, std::int64_t seed, std::int64_t fan) {
  any_tensor t(type);
  const philox random(seed);
  std::byte* data = t.mutable_data();
  const std::size_t size = static_cast<std::size_t>(type.dims.size());
  for (std::size_t i = 0; i < size; ++i)
    if (type.element == dtype::uint8) data[i] = static_cast<std::byte>(static_cast<int>(random.uniform(i) * 256));
    else {
      const float one = (2 * random.uniform(i) - 1) / std::sqrt(static_cast<float>(fan));
      std::memcpy(data + i * sizeof one, &one, sizeof one);
    }
  return t;
}

/// Builds the program of the decoder and creates its parameters.
class writer {
 public:
  writer(program& into, parameter_store& parameters, weights of) : into_(into), parameters_(parameters), of_(of) {}

  value parameter(const tensor_type& type, std::int64_t fan) {
    std::string name = "p" + std::to_string(parameters_.size());
    parameters_.add(name, numbers(type, static_cast<std::int64_t>(parameters_.size()), fan), state_role::parameter);
    return into_.state(name, type);
  }
  value linear(const value& x, std::int64_t in, std::int64_t out) {
    if (of_ == weights::float32 || of_ == weights::bfloat16)
      return matmul<false, true>(x, parameter({dtype::float32, {out, in}}, in));
    const std::int64_t bits = of_ == weights::int8 ? 8 : 4;
    const value packed = parameter({dtype::uint8, {out, in / block, block * bits / 8}}, 1),
                scale = parameter({dtype::float32, {out, in / block}}, in << 2 * bits);
    const float middle = bits == 8 ? 128.f : 8.f;
    return block_linear(x, packed, scale, into_.constant(any_tensor(scalar<float>(middle))), {bits, block});
  }
  value norm(const value& x) { return rms_norm(x, parameter({dtype::float32, {width}}, 1)); }
  value cache(const std::string& name) { return into_.input(name, {dtype::float32, {1, heads, room, depth}}); }

  /// Splits one position into heads, [1, heads, 1, depth].
  value split(const value& x) { return reshape(x, shape{1, heads, 1, depth}); }
  value layer(const value& x, const value& count, std::vector<value>& made) {
    const value a = norm(x), at = reshape(count, shape{1});
    const value q = rope(split(linear(a, width, width)), at), k = rope(split(linear(a, width, width)), at),
                v = split(linear(a, width, width));
    const std::string number = std::to_string(made.size());
    const value keys = cache("keys" + number), values = cache("values" + number);
    made.push_back(k), made.push_back(v);
    const value y = x + linear(reshape(cached_attention(q, k, v, keys, values, count), shape{1, width}), width, width);
    const value b = norm(y);
    return y + linear(silu(linear(b, width, hidden)) * linear(b, width, hidden), hidden, width);
  }
  value scores(const value& x) { return linear(norm(x), width, tokens); }

 private:
  program& into_;
  parameter_store& parameters_;
  weights of_;
};

class cached_decoder final : public bench::decode::decoder {
 public:
  cached_decoder(weights of, int threads) : of_(of) {
    auto p = std::make_shared<program>();
    writer w(*p, parameters_, of);
    const value x = p->input("x", {dtype::float32, {1, width}}), count = p->input("count", {dtype::int64, {1}});
    std::vector<value> made;
    value y = x;
    for (std::int64_t i = 0; i < layers; ++i) y = w.layer(y, count, made);
    p->output("scores", w.scores(y));
    for (std::size_t i = 0; i < made.size(); ++i) p->output("made" + std::to_string(i), made[i]);

    session_ = session(p, {&parameters_}, std::make_shared<context>(threads, target_isa()),
                       {.compute = of == weights::bfloat16 ? dtype::bfloat16 : dtype::float32});
    std::vector<shape> inputs{{1, width}, {1}};
    inputs.resize(2 + made.size(), shape{1, heads, room, depth});
    run_ = &session_.at(inputs);
    x_ = numbers({dtype::float32, {1, width}}, 1000, 1);
    run_->bind_input(0, x_.data()), run_->bind_input(1, &count_);
    run_->bind_output(0, scores_.mutable_data());
    for (std::size_t i = 0; i < made.size(); ++i) {
      cache_.push_back(numbers({dtype::float32, {1, heads, room, depth}}, 2000 + static_cast<std::int64_t>(i), 1));
      made_.push_back(any_tensor(tensor_type{dtype::float32, {1, heads, 1, depth}}));
    }
    for (std::size_t i = 0; i < made.size(); ++i)
      run_->bind_input(2 + i, cache_[i].data()), run_->bind_output(1 + i, made_[i].mutable_data());
  }
  void token() override {
    run_->run();
    constexpr std::size_t row = depth * sizeof(float);
    for (std::size_t i = 0; i < cache_.size(); ++i)
      for (std::int64_t h = 0; h < heads; ++h)
        std::memcpy(cache_[i].mutable_data() + static_cast<std::size_t>(h * room + count_) * row,
                    static_cast<const std::byte*>(made_[i].data()) + static_cast<std::size_t>(h) * row, row);
  }
  long bytes() const override {
    // Plans keep weights in bfloat16, half the size of their parameters.
    const long weights_bytes = static_cast<long>(parameters_.bytes()) / (of_ == weights::bfloat16 ? 2 : 1);
    return weights_bytes + static_cast<long>(cache_.size()) * heads * count_ * depth * 4;
  }

 private:
  weights of_;
  parameter_store parameters_;
  session session_;
  executor* run_ = nullptr;
  std::int64_t count_ = room - 1;
  any_tensor x_, scores_{tensor_type{dtype::float32, {1, tokens}}};
  std::vector<any_tensor> cache_, made_;  // keys and values of each layer
};

}  // namespace

std::unique_ptr<bench::decode::decoder> bench::decode::make_decoder(weights of, int threads) {
  return std::make_unique<cached_decoder>(of, threads);
}
