// A decoder of tokens as Llama is made: width 512, 8 layers, 8 heads, SwiGLU of 1408, 4096 tokens, a cache of 256 positions.
#pragma once
#include <memory>

namespace bench::decode {

enum class weights { float32, int8, int4 };  // of integers 32 share a scale

/// Gives the scores of one token, with the cache full but for its position.
class decoder {
 public:
  virtual ~decoder() = default;
  virtual void token() = 0;
  virtual long bytes() const = 0;  // that a token reads: weights, keys and values
};
std::unique_ptr<decoder> make_decoder(weights of, int threads);

}  // namespace bench::decode
