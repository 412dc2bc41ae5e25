// Transformers as models: an encoder and a decoder learn to reverse sequences, and are then served by reference models.
#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>

import lamina;

using namespace lamina;

namespace {

constexpr std::int64_t samples = 8, length = 5, words = 7, features = 16;

// Sequences of numbers 1 to 6; 0 starts the target, and pads positions that the mask hides.
inline constexpr auto translator =
    topology(sublayer<"source_words">(nn::embedding{words, features}),
             sublayer<"source_places">(nn::param_source{.shape = {length, features}}), sublayer<"source">(nn::add{}),
             sublayer<"target_words">(nn::embedding{words, features}),
             sublayer<"target_places">(nn::param_source{.shape = {length, features}}), sublayer<"target">(nn::add{}),
             sublayer<"encoder">(nn::transformer_encoder_layer{
                 .d_model = features, .nhead = 2, .dim_feedforward = 32, .dropout = 0.02, .mask = true}),
             sublayer<"decoder">(nn::transformer_decoder_layer{.d_model = features,
                                                               .nhead = 4,
                                                               .dim_feedforward = 32,
                                                               .dropout = 0.02,
                                                               .activation = nn::feedforward_activation::gelu,
                                                               .norm_first = true,
                                                               .mask = true}),
             sublayer<"logits">(nn::linear{features, words}), connect<"said", "source_words.input">,
             connect<"source_words.output", "source.lhs">, connect<"source_places.output", "source.rhs">,
             connect<"written", "target_words.input">, connect<"target_words.output", "target.lhs">,
             connect<"target_places.output", "target.rhs">, connect<"source.output", "encoder.input">,
             connect<"there", "encoder.mask">, connect<"target.output", "decoder.target">,
             connect<"encoder.output", "decoder.memory">, connect<"there", "decoder.mask">,
             connect<"decoder.output", "logits.input">, connect<"logits.output", "next">);

using ids = tensor<std::int64_t, extents<dyn, length>>;
using mask = tensor<bool, extents<dyn, 1, 1, length>>;
using translating =
    model<translator, port_input<"said", std::int64_t, "N", length>, port_input<"written", std::int64_t, "N", length>,
          port_input<"there", bool, "N", 1, 1, length>>;
using translating_factory =
    reference_factory<translator, port_input<"said", std::int64_t, "N", length>,
                      port_input<"written", std::int64_t, "N", length>, port_input<"there", bool, "N", 1, 1, length>>;

struct batch {
  ids said{samples}, written{samples}, wanted{samples};
  mask there{samples};
  explicit batch(std::uint64_t seed) {
    for (std::int64_t n = 0; n < samples; ++n) {
      const std::int64_t count = 3 + n % 3;  // number of unpadded positions
      for (std::int64_t t = 0; t < length; ++t) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        const auto at = static_cast<std::size_t>(n * length + t);
        there.writable()[at] = t < count;
        said.writable()[at] = t < count ? static_cast<std::int64_t>(1 + (seed >> 33) % (words - 1)) : 0;
      }
      for (std::int64_t t = 0; t < length; ++t) {
        const auto at = static_cast<std::size_t>(n * length + t);
        wanted.writable()[at] = t < count ? said.data()[static_cast<std::size_t>(n * length + count - 1 - t)] : 0;
        written.writable()[at] = t ? wanted.data()[at - 1] : 0;
      }
    }
  }
};
template <class A, class B> bool same_bits(const A& a, const B& b) {
  return a.data().size() == b.data().size() &&
         std::memcmp(a.data().data(), b.data().data(), a.data().size() * sizeof(a.data()[0])) == 0;
}
double share_that_is_right(translating& net, const batch& b) {
  const auto scores = net(b.said, b.written, b.there);
  double right = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(samples * length); ++i) {
    const float* row = &scores.data()[i * words];
    std::size_t best = 0;
    for (std::size_t w = 1; w < words; ++w)
      if (row[w] > row[best]) best = w;
    right += static_cast<std::int64_t>(best) == b.wanted.data()[i];
  }
  return right / (samples * length);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(transformers)

BOOST_AUTO_TEST_CASE(an_encoder_and_a_decoder_learn_and_are_served) {
  translating net({.seed = 3});
  training step(net, loss::cross_entropy{}, optim::adam{.lr = 5e-3});
  double first = 0, last = 0;
  for (std::uint64_t k = 0; k < 500; ++k) {
    const batch b(k);
    last = step(b.said, b.written, b.there, b.wanted);
    if (k == 0) first = last;
  }
  BOOST_TEST(first > 1);
  BOOST_TEST(last < 0.2 * first);
  batch unseen(1u << 20);
  BOOST_TEST(share_that_is_right(net, unseen) > 0.9);

  // Served: the same bits, for both threads' models and for a part of the batch.
  translating_factory factory(net);
  auto one = factory.create(), two = factory.create();
  const auto whole = net(unseen.said, unseen.written, unseen.there);
  BOOST_TEST(same_bits(whole, one(unseen.said, unseen.written, unseen.there)));
  BOOST_TEST(same_bits(whole, two(unseen.said, unseen.written, unseen.there)));

  // Masked positions of the source are not read, and no position of the target sees a later one.
  batch other = unseen;
  other.said = unseen.said.copy();
  other.written = unseen.written.copy();
  for (std::size_t i = 0; i < static_cast<std::size_t>(samples * length); ++i)
    if (!other.there.data()[i]) other.said.writable()[i] = 5;
  BOOST_TEST(same_bits(whole, one(other.said, other.written, other.there)));
  for (std::int64_t n = 0; n < samples; ++n) {
    auto& word = other.written.writable()[static_cast<std::size_t>(n * length + length - 1)];
    word = (word + 1) % words;
  }
  const auto later = one(other.said, other.written, other.there);
  for (std::int64_t n = 0; n < samples; ++n) {
    const auto from = static_cast<std::size_t>(n * length * words),
               upto = static_cast<std::size_t>((length - 1) * words);
    BOOST_TEST(std::memcmp(&whole.data()[from], &later.data()[from], upto * sizeof(float)) == 0);
    BOOST_TEST(std::memcmp(&whole.data()[from + upto], &later.data()[from + upto], words * sizeof(float)) != 0);
  }
}

BOOST_AUTO_TEST_SUITE_END()
