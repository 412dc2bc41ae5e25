// Non-finite losses and gradients: the layer is named, and nothing changes.
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

import lamina;

#include "nets.h"

#include "nets_of_squares.h"

using namespace lamina;
using namespace nets_test;

namespace {

const loss::cross_entropy by_entropy;

// The error of fit, and whether existing states kept every bit.
template <class Net, class D, class L>
std::string refusal(Net& net, const D& data, const L& loss, fit_options o, double rate = 0.1, bool* same = nullptr) {
  const auto before = net;
  std::string message;
  try {
    fit(net, data, loss, optim::sgd{.lr = rate}, o);
  } catch (const not_finite_error& e) { message = e.what(); }
  if (same) {
    *same = true;
    for (const auto& p : before.parameters())
      *same = *same &&
              std::memcmp(p.value().data(), net.parameters().find(p.name())->value().data(), p.value().bytes()) == 0;
  }
  return message;
}
template <class Net> void scale(Net& net, const std::string& name, float by) {
  auto& p = *net.parameters().find(name);
  auto v = p.value().copy();
  auto* x = reinterpret_cast<float*>(v.mutable_data());
  for (std::int64_t i = 0; i < v.shape().size(); ++i) x[i] *= by;
  p.assign(v);
}

inline constexpr auto exploding_net =
    sequential(nn::flatten{}, sublayer<"hidden">(nn::linear{.in_features = 36, .out_features = 16}),
               sublayer<"blast">(nn::exp{}), sublayer<"head">(nn::linear{.in_features = 16, .out_features = 3}));
using exploding_model = model<exploding_net, input<"N", 1, 6, 6>>;
inline constexpr auto spread_net = sequential(nn::flatten{}, sublayer<"norm">(nn::batch_norm1d{36}), nn::dropout{0.25},
                                              sublayer<"head">(nn::linear{.in_features = 36, .out_features = 3}));
using spread_model = model<spread_net, input<"N", 1, 6, 6>>;

// A square root of squares: finite, with an infinite slope where the difference is 0.
struct rooted {
  ir::value operator()(const ir::value& y, const ir::value&) const { return reduce_mean(sqrt(square(y - y))); }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(not_finite)

BOOST_AUTO_TEST_CASE(the_first_layer_is_named_and_nothing_changed) {
  for (std::int64_t shards : {1, 4}) {
    exploding_model net({.seed = 1});
    scale(net, "hidden.weight", 1e4f);
    bool same = false;
    const auto message = refusal(net, squares(32, 1), by_entropy, {.batch = 16, .shards = shards}, 0.1, &same);
    BOOST_TEST(
        holds(message, "fit: the loss is not finite in epoch 1, batch 1; a smaller learning rate may help (now 0.1)"));
    BOOST_TEST(holds(message, "; the first non-finite result is from exp in sublayer `blast` (exp), float32["));
    BOOST_TEST(holds(message, " infinite element"));
    BOOST_TEST(same, shards << " shards");
  }
}

BOOST_AUTO_TEST_CASE(training_goes_on_from_before_the_batch) {
  // The third batch's rate makes the fourth batch diverge; the model keeps the state after three batches.
  const auto rates = [](double base, std::int64_t step, std::int64_t) { return step == 2 ? 1e30 : base; };
  spread_model net({.seed = 1}), three({.seed = 1});
  const auto message = refusal(net, squares(80, 1), by_entropy, {.batch = 16, .schedule = rates});
  BOOST_TEST(holds(message, "fit: the loss is not finite in epoch 1, batch 4"));
  fit(three, squares(80, 1), by_entropy, optim::sgd{.lr = 0.1},
      {.batch = 16, .schedule = rates, .observer = [](const training_progress& p) { return p.batch < 3; }});
  BOOST_TEST(same_bits(net.parameters(), three.parameters()));
}

BOOST_AUTO_TEST_CASE(a_gradient_is_named_where_gradients_are_checked) {
  for (std::int64_t shards : {1, 2}) {
    plain_model net({.seed = 1});
    bool same = false;
    const auto message =
        refusal(net, squares(32, 1), rooted{}, {.batch = 16, .shards = shards, .check_gradients = true}, 0.1, &same);
    BOOST_TEST(holds(message, "fit: a gradient is not finite in epoch 1, batch 1;"));
    BOOST_TEST(holds(message, "; the first non-finite gradient is from "));
    BOOST_TEST(holds(message, " in loss"));
    BOOST_TEST(holds(message, " infinite elements"));
    BOOST_TEST(same, shards << " shards");
    // Otherwise the next batch reports the parameter.
    plain_model other({.seed = 1});
    const auto later = refusal(other, squares(32, 1), rooted{}, {.batch = 16, .shards = shards});
    BOOST_TEST(holds(later, "fit: the loss is not finite in epoch 1, batch 2;"));
    BOOST_TEST(holds(later, "; parameter `hidden.weight` has 576 NaN elements before this batch"));
    // Or the end of the epoch.
    plain_model last({.seed = 1});
    BOOST_TEST(holds(refusal(last, squares(16, 1), rooted{}, {.batch = 16, .shards = shards}),
                     "`check_gradients` finds the batch and the layer"));
  }
}

BOOST_AUTO_TEST_CASE(checked_gradients_change_no_bit) {
  regular_model plain({.seed = 1}), checked({.seed = 1});
  fit(plain, squares(40, 1), by_entropy, optim::adam{}, {.epochs = 2, .batch = 16});
  fit(checked, squares(40, 1), by_entropy, optim::adam{}, {.epochs = 2, .batch = 16, .check_gradients = true});
  BOOST_TEST(same_bits(plain.parameters(), checked.parameters()));
}

BOOST_AUTO_TEST_CASE(an_input_is_named_with_its_sample) {
  struct damaged {
    std::int64_t size() const { return 40; }
    std::pair<tensor<float, extents<1, 6, 6>>, std::int64_t> operator[](std::int64_t i) const {
      tensor<float, extents<1, 6, 6>> x;
      for (auto& e : x.writable()) e = 0.5f;
      if (i == 17) x.writable()[3] = x.writable()[4] = std::numeric_limits<float>::quiet_NaN();
      return {x, i % 3};
    }
  };
  for (std::int64_t shards : {1, 8}) {
    plain_model net({.seed = 1});
    bool same = false;
    const auto message = refusal(net, damaged{}, by_entropy, {.batch = 40, .shards = shards}, 0.1, &same);
    BOOST_TEST(holds(message, "has 2 NaN elements, first in sample 17"));
    BOOST_TEST(same);
  }
}

// Infinities of a mask are intended; operations that turn them into NaN, or that overflow, are named.
BOOST_AUTO_TEST_CASE(masks_are_not_named) {
  struct masked {
    bool fails;
    ir::value operator()(const ir::value& y, const ir::value&) const {
      any_tensor mask(tensor_type{dtype::float32, shape{3}});
      reinterpret_cast<float*>(mask.mutable_data())[0] = -std::numeric_limits<float>::infinity();
      ir::program& p = y.owner();
      const ir::value shown = softmax(y + p.constant(mask));
      const ir::value rest = reduce_mean(square(shown));
      return fails ? rest + reduce_mean(log(shown * 0)) : rest;
    }
  };
  plain_model net({.seed = 1}), other({.seed = 1});
  BOOST_TEST(refusal(net, squares(32, 1), masked{false}, {.batch = 16}) == "");
  BOOST_TEST(holds(refusal(other, squares(32, 1), masked{true}, {.batch = 16}), "is from log in loss"));
}

BOOST_AUTO_TEST_CASE(observers_get_the_gradients_of_the_last_batch) {
  struct reader {
    std::map<std::string, std::vector<double>>* to;
    std::function<std::vector<named_tensor>()> gradients{};
    void began(const training_start& s) {
      gradients = s.gradients;
      BOOST_TEST(holds(error_of(gradients), "gradients: call it from an observer"));
    }
    bool operator()(const training_progress&) {
      for (const auto& [name, g] : gradients()) {
        auto& into = (*to)[name];
        into.clear();
        for (double x : g.elements<double>()) into.push_back(x);
      }
      return true;
    }
    void ended(training_report&) { BOOST_TEST(holds(error_of(gradients), "gradients: call it from an observer")); }
  };
  using wide = model<spread_net, input<"N", 1, 6, 6>, policies<element<double>>>;
  for (std::int64_t shards : {1, 4}) {
    // With a rate of 0 the parameters stay, and the gradient of the only batch equals a step of plain gradient descent.
    wide net({.seed = 1}), same({.seed = 1}), stepped({.seed = 1});
    std::map<std::string, std::vector<double>> found;
    fit_options o{.batch = 30, .observer = reader{&found}, .shards = shards};
    fit(net, squares(30, 1), by_entropy, optim::sgd{.lr = 0}, o);
    BOOST_TEST(found.size() == 4u);  // weight and bias of norm and head
    o.observer = {};
    fit(same, squares(30, 1), by_entropy, optim::sgd{.lr = 0}, o);
    BOOST_TEST(same_bits(net.parameters(), same.parameters()));  // reading gradients changes nothing
    // With the same dropout masks: one step came before.
    fit(stepped, squares(30, 1), by_entropy, optim::sgd{.lr = 0}, o);
    const auto before = stepped;
    fit(stepped, squares(30, 1), by_entropy, optim::sgd{.lr = 1}, o);
    for (const auto& [name, g] : found) {
      const auto w = before.parameters().find(name)->value().elements<double>(),
                 now = stepped.parameters().find(name)->value().elements<double>();
      BOOST_REQUIRE(g.size() == w.size());
      double max = 0, worst = 0;
      for (std::size_t i = 0; i < g.size(); ++i) {
        max = std::max(max, std::abs(g[i]));
        worst = std::max(worst, std::abs(w[i] - now[i] - g[i]));
      }
      BOOST_TEST(max > 1e-4, name);
      BOOST_TEST(worst < 1e-12, name);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
