// A Llama-style decoder: width 512, 8 layers, 8 heads, SwiGLU of 1408, vocabulary of 4096 tokens, key/value cache of
// 256 positions.
#pragma once
#include <memory>

namespace bench::decode {

enum class weights { float32, bfloat16, int8, int4 };  // int8 and int4: blocks of 32 weights share a scale

/// Computes the scores of one token; the cache is full except for the position of this token.
class decoder {
 public:
  virtual ~decoder() = default;
  virtual void token() = 0;
  virtual long bytes() const = 0;  // read per token: weights, keys and values
};
std::unique_ptr<decoder> make_decoder(weights of, int threads);

}  // namespace bench::decode
